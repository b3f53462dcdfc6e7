"""Calibration: samples, and statistics of the tensors that they produce."""
