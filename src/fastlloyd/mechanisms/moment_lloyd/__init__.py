"""MomentLloyd, our own mechanism (docs/momentlloyd.md)."""
