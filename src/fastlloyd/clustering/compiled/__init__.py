"""Inner loops compiled by Numba. Only large computations import them, because loading takes
time.
"""
