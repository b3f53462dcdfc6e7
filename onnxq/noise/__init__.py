"""What causes the error of a quantized model: sources of noise, how they add up, and what to leave in float."""
