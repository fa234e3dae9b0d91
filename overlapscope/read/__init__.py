"""Readers: one file in, one immutable `Trace` out. They know file formats and compute no measures."""
