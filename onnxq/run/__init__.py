"""What runs models: onnxruntime, NVIDIA's compiler, Polygraphy's files."""

from onnxq.run.telemetry import switch_off

switch_off()  # before any module of this package imports onnxruntime, and no other one does
