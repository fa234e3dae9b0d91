"""Remove from a trace what its owner may not want to publish and an analysis does not need.

It works with lists of fields to keep: unknown fields are dropped.
"""
