"""Carries messages over gRPC and TLS."""
