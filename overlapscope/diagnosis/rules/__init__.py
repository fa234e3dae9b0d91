"""One rule per file. Its docstring is its page in the documentation, and what ``overlapscope explain`` prints."""
