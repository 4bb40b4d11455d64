"""MomentLloyd: moments first, tight offsets last; a mechanism of our own (docs/momentlloyd.md)."""
