"""Programs that each show one overlap problem, with the variants that fix it."""
