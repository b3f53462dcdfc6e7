"""What `sensitivity` and goals show on nets: a table a file; `python -m benchmarks.sensitivity` is all."""
