"""Every option, once: as a flag, as a key of `onnxq.toml` and as a keyword."""
