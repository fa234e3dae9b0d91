"""One loop per file: what a user of a library writes, and the fix."""
