"""Quantization: the plan, the scales, and their insertion."""
