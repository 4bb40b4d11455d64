"""Transport over a network: one stream over gRPC and TLS between each client and the server."""
