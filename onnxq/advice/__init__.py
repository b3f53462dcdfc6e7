"""What a report means: what is found, what causes it, what to do."""
