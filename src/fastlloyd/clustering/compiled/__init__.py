"""Inner loops, compiled by numba; imported only for computations large enough to repay the
loading.
"""
