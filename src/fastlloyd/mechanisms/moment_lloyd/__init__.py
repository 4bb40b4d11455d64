"""MomentLloyd, a mechanism of this package (docs/momentlloyd.md)."""
