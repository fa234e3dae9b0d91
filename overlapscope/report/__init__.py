"""What people are told: `content.audit` collects plain data, the other modules render it."""
