"""Data sets, experiments and pictures for researchers. Everything here is NOT PRIVATE.

`fastlloyd` knows this package only by its commands `experiment` and `datasets`, which it finds as
entry points.
"""
