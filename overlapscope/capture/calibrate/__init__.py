"""Calibrate the machine before a recording: link bandwidth, host costs and profiler overhead, in under a second.

With these figures the analysis knows what a copy *would* take from pinned memory, and how much of a recorded time is
profiler overhead. Figures are medians. Issue costs are minima, since other load on the machine can only add to them.
"""

from overlapscope.capture.calibrate.issuing import op_costs
from overlapscope.capture.calibrate.link import bidirectional_copies, link_speeds
from overlapscope.capture.calibrate.packing import pack_times
from overlapscope.capture.calibrate.post_staging import issue_after_staging

__all__ = ["bidirectional_copies", "issue_after_staging", "link_speeds", "op_costs", "pack_times"]
