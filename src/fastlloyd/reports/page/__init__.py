"""Page of a result: one HTML file without scripts, made from the other files of the result."""
