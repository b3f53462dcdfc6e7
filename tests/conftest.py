"""What all tests need."""

from __future__ import annotations

import functools
import gc
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import typer.main

import onnxq.run  # noqa: F401 (before a test imports onnxruntime: it keeps records unless told)
from onnxq.data.sources import Order
from onnxq.rule import load

pytest_plugins = ("tiers",)

_load = load._load_folder
_load_once = functools.cache(lambda folder: tuple(_load(folder)))
# Rules are loaded and flags made once a process, not once a run: they are most of what a small run takes.
typer.main.get_command = functools.cache(typer.main.get_command)
load._load_folder = lambda folder: [*_load_once(folder)] if folder == load.builtin_dir() else _load(folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Ten thousand tests stay: the garbage collector does not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def by_place() -> Iterator[None]:
    """Samples do the same whatever they hold, so that a test knows what the one at a place is for.

    A permutation of their places decides, as `np.random.default_rng(seed)` makes it; its end verifies.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Order, "of", lambda table: Order([row.to_bytes(9, "big") for row in range(table.count)])
        )
        patch.setattr(
            Order,
            "shuffled",
            lambda order, seed: np.random.default_rng(seed).permutation(len(order.keys)).tolist(),
        )
        yield
