"""Two sides of traces, before and after a change: figures, findings, and why the time differs."""
