"""Transports, which carry the messages of a run: in one process, over MPI or over gRPC."""
