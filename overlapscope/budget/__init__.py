"""Limits on what a trace may cost: their configuration, the figures that they limit, and the check."""
