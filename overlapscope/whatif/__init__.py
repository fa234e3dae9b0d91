"""What would change if the program were different: changes of a graph, simulated."""
