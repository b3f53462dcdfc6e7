"""A compiled engine, read closely: its kernels, what became of each node, what it moves."""
