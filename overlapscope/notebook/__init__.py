"""What notebooks show of our objects, and the magic that records a cell."""
