"""What a trace's times would be if something in it were different: a dependency graph, replayed."""
