"""Whether a thread waits for another, or only happens to go on after it."""

from __future__ import annotations

from math import log

import numpy as np

from overlapscope.model.columns import Int64

_LEAST = 1e-6  # of a silence: shorter lags tell no more


def unlikely(silence_ns: Int64, lag_ns: Int64, causes: Int64, chance: float) -> bool:
    """Whether silences that end so shortly after the last of the ``causes`` in them are no likelier than ``chance``.

    By chance causes are anywhere in a silence, each of them, so that the last is as near to its end as that with a
    probability of ``1 - (1 - lag / silence) ** causes``. Those of all silences are put together (Fisher, Statistical
    Methods for Research Workers, 1932, 21.1).
    """
    near = np.minimum(lag_ns / np.maximum(silence_ns, 1), 1)
    found = float(-np.log(np.clip(1 - (1 - near) ** causes, _LEAST, 1)).sum())
    terms = np.arange(len(lag_ns))
    factorials = np.cumsum(np.log(np.maximum(terms, 1)))
    return found > 0 and float(np.exp(terms * log(found) - factorials - found).sum()) <= chance


def steady(lag_ns: Int64, silence_ns: Int64, times: float = 1.0) -> bool:
    """Whether a thread's silences differ because of what it waits for: more, ``times`` as much, than when it answers.

    What a thread does by itself takes as long whatever others do meanwhile. Middle halves are compared.
    """
    lag, silence = (float(np.subtract(*np.quantile(each, [0.75, 0.25]))) for each in (lag_ns, silence_ns))
    return times * lag <= silence
