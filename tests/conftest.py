"""What all tests need."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

import onnxq.run  # noqa: F401 (before a test imports onnxruntime: it keeps records unless told)

pytest_plugins = ("tiers",)


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
