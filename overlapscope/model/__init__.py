"""The trace as immutable typed tables; knows of no file format and computes nothing."""
