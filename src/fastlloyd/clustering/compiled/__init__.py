"""The inner loops, compiled by numba; imported only where a computation is large enough to repay
the loading.
"""
