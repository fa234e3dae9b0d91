"""What a trace can answer: one file per check, each about one question, with the setting that would help."""
