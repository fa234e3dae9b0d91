"""A prefetch on a side stream with waits in both directions, small: what the event-wait case files record.

    python tests/cases/side_stream_wait.py OUT.json.gz       as a Kineto trace
    nsys profile -c cudaProfilerApi python tests/cases/side_stream_wait.py

Three rounds. In each, the side stream waits for the compute stream (``wait_stream``), copies the next
batch from pinned memory, and records an event; the compute stream waits for that event, then computes.
"""

from __future__ import annotations

import sys

import torch

from overlapscope.capture.annotate import annotate
from overlapscope.capture.recorder import record_pass


def main() -> None:
    compute, side = torch.cuda.Stream(), torch.cuda.Stream()
    source = torch.ones(4, 2**20, pin_memory=True)
    target = torch.empty(4, 2**20, device="cuda")
    weight = torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()

    def one_pass() -> None:
        with annotate("pass"), torch.cuda.stream(compute):
            for index in range(3):
                with annotate("round"):
                    side.wait_stream(compute)
                    with torch.cuda.stream(side):
                        target[index].copy_(source[index], non_blocking=True)
                        ready = torch.cuda.Event()
                        ready.record(side)
                    compute.wait_event(ready)
                    _ = weight @ weight
                    _ = target[index].sum()
            torch.cuda.synchronize()

    record_pass(one_pass, sys.argv[1] if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
