"""Lloyd, SuLloyd, GLloyd and FastLloyd: the paper's mechanisms."""
