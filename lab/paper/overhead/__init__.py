"""What an iteration costs over MPI and gRPC beside the paper's Table 3: `python -m paper.overhead`
measures it.
"""
