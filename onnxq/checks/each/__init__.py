"""Onnxq's checks, a file for each thing that they look at."""
