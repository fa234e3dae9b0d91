"""Programs that were fixed, and their traces."""
