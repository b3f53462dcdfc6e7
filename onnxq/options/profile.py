"""An optimization profile, as options state it: all that the compiler's process needs of them."""

from __future__ import annotations

from collections.abc import Sequence

Profile = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""The smallest, the usual and the largest shape of an input."""
