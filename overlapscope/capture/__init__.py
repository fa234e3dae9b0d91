"""What users put into their own programs: names for ranges, and recording."""

from overlapscope.capture.annotate import annotate

__all__ = ["annotate"]
