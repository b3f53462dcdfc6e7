"""What onnxq costs, measured side by side with what it is compared with: `python -m benchmarks`."""
