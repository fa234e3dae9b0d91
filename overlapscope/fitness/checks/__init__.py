"""The checks, one file each, in the order of the catalogue."""
