"""Carries the messages of a run: in one process, over MPI or over gRPC."""
