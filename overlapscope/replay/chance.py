"""Whether a thread waits for another, or only happens to go on after it."""

from __future__ import annotations

from math import log

import numpy as np

from overlapscope.model.columns import Float64, Int64

_LEAST = 1e-6  # of a silence: shorter lags tell no more


def unlikely(silence_ns: Int64, lag_ns: Int64, causes: Int64, chance: float) -> bool:
    """Whether silences that end so shortly after the last of the ``causes`` in them are no likelier than ``chance``.

    By chance causes are anywhere in a silence, each of them, so that the last is as near to its end as that with a
    probability of ``1 - (1 - lag / silence) ** causes``.
    """
    near: Float64 = np.minimum(lag_ns / np.maximum(silence_ns, 1), 1)
    by_chance: Float64 = 1 - (1 - near) ** causes
    return together(by_chance) <= chance


def together(by_chance: Float64) -> float:
    """How likely it is by chance that all of these came, each as likely as that, or what is as unlikely.

    Fisher, Statistical Methods for Research Workers, 1932, 21.1.

    >>> round(together(np.array([0.1, 0.1, 0.1])), 4)
    0.0318
    """
    found = float(-np.log(np.clip(by_chance, _LEAST, 1)).sum())
    if found <= 0:
        return 1.0
    terms = np.arange(len(by_chance))
    factorials = np.cumsum(np.log(np.maximum(terms, 1)))
    return float(np.exp(terms * log(found) - factorials - found).sum())


def steady(lag_ns: Int64, silence_ns: Int64, times: float = 1.0) -> bool:
    """Whether a thread's silences differ because of what it waits for: more, ``times`` as much, than when it answers.

    What a thread does by itself takes as long whatever others do meanwhile. Middle halves are compared.
    """
    lag, silence = (float(np.subtract(*np.quantile(each, [0.75, 0.25]))) for each in (lag_ns, silence_ns))
    return times * lag <= silence
