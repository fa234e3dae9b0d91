"""What this machine's link, its host and its profiler cost: measured in a fraction of a second, before a recording.

The figures let an analysis say what a copy *would* take from pinned memory, and how much of a recorded
time is the profiler's. Figures are medians; what issuing something costs is the least of many, since whatever else the
machine does can only add to it.
"""

from overlapscope.capture.calibrate.issuing import issue_cost
from overlapscope.capture.calibrate.link import copy_times, duplex_times
from overlapscope.capture.calibrate.packing import pack_times
from overlapscope.capture.calibrate.post_staging import post_staging_times

__all__ = ["copy_times", "duplex_times", "issue_cost", "pack_times", "post_staging_times"]
