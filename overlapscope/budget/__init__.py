"""Limits on what a trace may cost: their configuration, the figures that they are about, and the check."""
