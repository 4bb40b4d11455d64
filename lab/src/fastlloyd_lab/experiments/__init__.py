"""Run the paper's experiments, and a user's own, on public records. NOT PRIVATE."""
