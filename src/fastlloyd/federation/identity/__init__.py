"""Who takes part: keys, certificates and the files they lie in."""
