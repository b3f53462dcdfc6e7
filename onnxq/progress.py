"""How a run tells what it does while it does it."""

from __future__ import annotations

from collections.abc import Callable

Observer = Callable[[str, int | None, int | None], None]
"""Is told each step's name; while samples run, how many are done, and of how many where known."""
