"""Pictures of a trace. `lanes` decides what is drawn, as plain data; only the other modules know matplotlib."""
