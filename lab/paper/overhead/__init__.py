"""Cost of an iteration over MPI and gRPC, compared with Table 3 of the paper. `python -m
paper.overhead` measures it.
"""
