"""What repair of accuracy gains, and costs, on nets with data: `python -m benchmarks.repair`."""
