"""Many traces, one answer: a pure map of each trace to rows, executors that run it, and a pure reduce of all rows."""
