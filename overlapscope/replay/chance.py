"""Whether a thread waits for another, or only happens to go on after it."""

from __future__ import annotations

from math import log

import numpy as np

from overlapscope.measure.spans import covered, union
from overlapscope.model.columns import Int64
from overlapscope.replay.config import ReplayConfig


def unlikely(start_ns: Int64, end_ns: Int64, lag_ns: Int64, causes_ns: Int64, config: ReplayConfig) -> bool:
    """Whether silences that end so shortly after one of the causes are all but impossible by chance.

    By chance each ends at any moment, so that as many of them end within a time after a cause as such times are a share
    of all silences. The time is twice the middle one of ``lag_ns``; those that took longer do not count.
    """
    most = 2 * int(np.median(lag_ns))
    silent = int((end_ns - start_ns).sum())
    near = int(covered(start_ns, end_ns, union(causes_ns, causes_ns + most + 1)).sum())
    if not near or not silent:
        return bool(silent)
    return int((lag_ns <= most).sum()) * log(near / silent) <= log(config.chance)


def steady(lag_ns: Int64, silence_ns: Int64, times: float = 1.0) -> bool:
    """Whether a thread's silences differ because of what it waits for: more, ``times`` as much, than when it answers.

    What a thread does by itself takes as long whatever others do meanwhile. Middle halves are compared.
    """
    lag, silence = (float(np.subtract(*np.quantile(each, [0.75, 0.25]))) for each in (lag_ns, silence_ns))
    return times * lag <= silence
