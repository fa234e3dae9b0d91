"""Loops of popular libraries as they are, recorded, diagnosed, fixed and timed again."""
