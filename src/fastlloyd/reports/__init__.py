"""Results, statements, explanations and pictures for people. Only noisy numbers and public settings
come in.
"""
