"""Example programs with one overlap problem each, and the variants in which it is fixed."""
