"""What runs models: onnxruntime, NVIDIA's compiler, Polygraphy's files."""
