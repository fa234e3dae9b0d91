"""How long each part takes, how that grows with the size of a trace, and how it compares with others."""
