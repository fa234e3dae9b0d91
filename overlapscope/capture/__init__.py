"""For use in programs: annotate ranges, and record."""

from overlapscope.capture.annotate import annotate

__all__ = ["annotate"]
