"""Inner loops of noise compiled by Numba. Only large draws import them, because loading takes
time.
"""
