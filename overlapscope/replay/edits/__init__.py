"""What each change does to a graph: one per file."""
