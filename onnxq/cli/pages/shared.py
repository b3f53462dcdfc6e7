"""Weights that several layers share, as `onnxq inspect` and `onnxq statistics weights` show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import counted, first_few, in_line, say, size_text
from onnxq.cli.screen import Page

if TYPE_CHECKING:
    from onnxq.graph.shared import SharedWeight

_SHOWN, _READERS = 5, 4


def shared_entries(page: Page, shared: Sequence[SharedWeight], *, full: bool) -> None:
    """Who reads which; nothing where no weight is shared.

    Args:
        page: is written to.
        shared: they.
        full: whether all are shown, with all that read them.
    """
    if not shared:
        return
    page.section("Shared", say("shared-weights", weights=counted(len(shared), "weight")))
    for one in shared if full else shared[:_SHOWN]:
        size = "x".join(map(str, one.shape))
        readers = first_few(list(map(in_line, one.readers)), len(one.readers) if full else _READERS, "")
        page.entry(f"{in_line(one.weight)}  {one.dtype} {size}, {size_text(one.bytes)}: {readers}")
    if not full:
        page.more(len(shared) - _SHOWN, "(--json)")
