"""Programs whose asynchronous copies race, run many times beside twins that order them: how often results differ."""
