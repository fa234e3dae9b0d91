"""What waited for what: one graph of dependencies under diagnosis and prediction."""
