"""Data: what samples are, where they come from, and what they look like."""
