"""What the trace's times amount to: pure functions over tables, frozen results. No I/O, no plots."""
