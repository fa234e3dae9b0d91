"""The calibration in a recorded trace: what the machine and the profiler cost, and which operators consume copies.

`schema` says what there is, `data` makes JSON-ready data or NVTX marks of it and reads these again. Keys are the names
of the schema's fields; no other package knows them.
"""
