"""Changes of a program: one file and one class each."""
