"""The version, kept in one place. The package, the build, and the statements that the package
writes take the version from here.
"""

__version__ = "0.1.0"
