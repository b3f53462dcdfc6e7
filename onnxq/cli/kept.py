"""What is kept of a measurement for a run that goes on: not that of a run that the user's input ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from onnxq.base.errors import UserError


@contextlib.contextmanager
def kept(state: Path | None) -> Iterator[None]:
    """Removes what a run that ends with exit code 2 kept; what an interrupted one had left before it stays.

    Args:
        state: the file; None: nothing is kept.
    """
    from onnxq.pipeline.pursuit import forget

    before = state is not None and os.path.exists(state)
    try:
        yield
    except UserError:
        if state is not None and not before:
            forget(state)
        raise
