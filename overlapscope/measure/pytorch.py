"""Tell whether a program uses PyTorch, from the names of its operators and kernels."""

from __future__ import annotations

import numpy as np

from overlapscope.model.trace import Trace

_SIGNS = ("at::native", "aten::", "c10::")


def uses_pytorch(trace: Trace) -> bool:
    """Whether there are operators, Python calls or a recording, or kernels or ranges with names of PyTorch."""
    if len(trace.cpu_ops) or len(trace.frames) or trace.metadata.recording is not None:
        return True
    used = np.unique(np.concatenate([trace.kernels.name_id, trace.ranges.name_id])).tolist()
    return any(sign in trace.names[number] for number in used for sign in _SIGNS)
