"""One object that holds a trace, a window and a configuration together, and each fact derived from them once."""
