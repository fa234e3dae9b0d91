"""Timelines as figures: matplotlib paints the lanes of `overlapscope.timeline`."""
