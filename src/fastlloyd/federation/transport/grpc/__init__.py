"""Transport over a network: streams over gRPC and TLS between a client and the server."""
