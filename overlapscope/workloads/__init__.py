"""Programs that show one overlap problem each, with the twins in which it is fixed."""
