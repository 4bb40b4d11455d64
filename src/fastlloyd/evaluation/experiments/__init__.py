"""The paper's evaluation, run again: public records, exact measures, NOT PRIVATE."""
