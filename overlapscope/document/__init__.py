"""What overlapscope says, as a small tree of plain data, and its renderers: terminal, HTML, Markdown."""
