"""One change per file. Its docstring is its page in the documentation."""

NAMES = (
    "pin", "pin-ahead", "batch-copies", "read-once", "no-scalar-sync", "non-blocking", "no-device-sync",
    "preallocate", "faster-link", "side-stream", "prefetch", "fused-optimizer", "cuda-graph", "copy-first",
    "no-empty-cache", "workers", "no-gc", "no-host-work",
)  # fmt: skip
"""Names of all changes, in the order in which they are made: what copies are comes before where they go, and that
before which goes first. The file and the class of a change are named after it."""
