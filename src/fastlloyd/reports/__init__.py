"""Results, privacy statements, explanations and pictures.

This package reads noisy numbers and public settings only. The one exception is a picture with
records.
"""
