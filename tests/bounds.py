"""What the order of the work alone leaves open of a predicted time."""

from __future__ import annotations

from overlapscope.whatif.sources import Estimate, Part, Reason


def by_order_ns(found: Estimate) -> tuple[int, int]:
    """The time with the least order of the work, and with the most, and nothing else unknown."""
    order = next((part for part in found.parts if part.reason is Reason.ORDER), Part(Reason.ORDER, 0, 0))
    return found.predicted_ns - order.less_ns, found.predicted_ns + order.more_ns
