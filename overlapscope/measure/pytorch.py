"""Tell whether a program uses PyTorch."""

from __future__ import annotations

import numpy as np

from overlapscope.model.trace import Trace

_SIGNS = ("at::native", "aten::", "c10::")


def uses_pytorch(trace: Trace) -> bool:
    """Whether its own profiler made the trace, a recording did, or kernels or ranges have names of PyTorch."""
    if trace.metadata.format == "kineto" or trace.metadata.recording is not None:
        return True
    used = np.unique(np.concatenate([trace.kernels.name_id, trace.ranges.name_id])).tolist()
    return any(sign in trace.names[number] for number in used for sign in _SIGNS)
