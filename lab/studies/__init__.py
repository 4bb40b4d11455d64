"""Studies of the quality of private clustering: on synthetic groups, without single parts of
MomentLloyd, compared with other libraries, and of the errors that a result shows.
"""
