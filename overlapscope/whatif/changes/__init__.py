"""One change per file. Its docstring is its page in the documentation."""
