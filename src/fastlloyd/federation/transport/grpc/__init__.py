"""Runs over a network: streams over gRPC and TLS, one party at each end."""
