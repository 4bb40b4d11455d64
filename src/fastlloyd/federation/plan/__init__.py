"""What all parties of a run agree on before it."""
