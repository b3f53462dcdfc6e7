"""How near outputs are, which of them can be compared, and which candidate is better: each in one place."""
