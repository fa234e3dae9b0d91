"""Programs that were mended, and their traces."""
