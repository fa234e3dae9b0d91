"""What a trace can answer: checks, each of one question, with the setting of the profiler that would help."""
