"""The trace as immutable typed tables, independent of file formats; nothing is computed here."""
