"""The pytest plugin: record a test or open a recorded trace, and assert what it may cost."""
