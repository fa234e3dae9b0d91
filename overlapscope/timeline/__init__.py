"""What a timeline shows, as plain data: lanes, the bars on them, the window, and bars merged to pixels."""
