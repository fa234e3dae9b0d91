"""Why copies were not hidden: every idle interval of a GPU attributed to one reason, with evidence."""
