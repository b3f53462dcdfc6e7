"""Small transformers, trained here: PyTorch is in an environment of its own, and only this needs it."""
