"""One graph of dependencies, of calls and device work, under diagnosis and prediction."""
