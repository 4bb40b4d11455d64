"""Experiments on public records: what is run, what came out, and its pictures and tables. NOT PRIVATE."""
