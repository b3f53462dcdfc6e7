"""The rule engine and the proof of each change."""
