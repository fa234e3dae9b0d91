"""Take out of a trace what its reader does not need and its owner may not want to publish.

By list of what is kept, not of what is dropped: a field that nobody here has heard of does not get through.
"""
