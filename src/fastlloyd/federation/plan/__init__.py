"""What all parties agree on before a run: the plan, how it is designed, and how it is renewed."""
