"""Calibration: statistics of the tensors that samples produce."""
