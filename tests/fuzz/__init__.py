"""A mutation fuzzer: damaged and hostile copies of sample traces, run through every command.

    python -m tests.fuzz --minutes 30

Each mutant is named by a seed and a number, and is the same each time. For each, in a process of its own with limits:

- only documented errors come out, and no warning;
- nothing takes longer than the size of the file allows;
- no figure is negative, or beyond its whole;
- a scrubbed trace has the figures of the original.
"""
