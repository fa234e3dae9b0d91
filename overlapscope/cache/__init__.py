"""Opened traces, kept as Arrow files: what was read once opens again without being parsed."""
