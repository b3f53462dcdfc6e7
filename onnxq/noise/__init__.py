"""What causes the error of a quantized model: its sources, how they add up, what to leave in float."""
