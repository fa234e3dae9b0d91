"""Reports for people: `content.audit` collects plain data, the other modules render it."""
