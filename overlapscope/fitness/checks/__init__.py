"""The checks by topic; each is a function from a trace to its `Answer`, listed in the catalogue."""
