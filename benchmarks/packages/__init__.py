"""Trained nets of published packages, quantized and judged by what they are for: see `__main__`."""

from benchmarks.packages.all import net, nets

__all__ = ["net", "nets"]
