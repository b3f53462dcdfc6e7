"""The heap of onnxq's own processes."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
from onnxq.base.heap import steady_heap
steady_heap()
size = int(sys.argv[1])
held = bytearray(size)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    del held
    held = bytearray(size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(size: int) -> int:
    """How many pages the system clears for 50 arrays of so many bytes, one after another."""
    command = [sys.executable, "-c", _FAULTS, str(size)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap of another C library")
def test_arrays_come_from_the_heap_and_large_ones_go_back() -> None:
    page = 1 << 12
    assert faults(1 << 19) < 3 * (1 << 19) // page
    assert faults(1 << 22) >= 50 * (1 << 22) // page  # whatever was freed before: none is kept
