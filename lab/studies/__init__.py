"""How good private clustering is: on synthetic groups, without one of its parts, beside other
libraries, and its errors.
"""
