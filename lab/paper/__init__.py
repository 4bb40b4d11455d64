"""The paper's experiments: specifications for `fastlloyd experiment run`, and programs for what is
no experiment.
"""
