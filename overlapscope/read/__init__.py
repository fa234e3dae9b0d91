"""Readers: one file in, one immutable `Trace` out. Knows formats; computes no measure."""
