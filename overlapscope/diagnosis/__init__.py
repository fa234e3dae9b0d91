"""Why copies were not hidden: lost device time laid to one reason each, with evidence."""
