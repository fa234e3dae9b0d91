"""Measurements of the package against other programs and against reality."""
