"""Transports carry the messages of a run between its parties: in one process, over MPI or gRPC."""
