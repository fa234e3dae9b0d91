"""Measures of a trace: pure functions over its tables, with frozen results. No I/O, no plots."""
