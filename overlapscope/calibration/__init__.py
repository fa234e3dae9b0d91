"""The calibration in a recorded trace: what the machine and the profiler cost, and which operators consume copies.

`schema` says what there is, `writing` makes JSON-ready data of it, `reading` reads that again, `version_1` what older
recordings wrote, `publishing` keeps what may be published, `marks` carries it through NVTX. Keys are the names of the
schema's fields; no other package knows them.
"""
