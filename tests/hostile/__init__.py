"""Hostile models, data and command lines, each with what onnxq has to say: `python -m tests.hostile`."""
