"""NOT PRIVATE: data sets, experiments and their pictures for researchers.

`fastlloyd` knows this package only by its commands `experiment` and `datasets`, which it finds as
entry points.
"""
