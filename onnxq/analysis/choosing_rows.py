"""Which rows of a table are wanted: by patterns of names, and by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.base.patterns import fits

R = TypeVar("R")


def wanted_rows(
    rows: Iterable[R],
    names: Callable[[R], Sequence[str]],
    op: Callable[[R], str],
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
) -> list[R]:
    """The rows of which a name fits one of the patterns and the operator is one of those.

    Args:
        rows: all rows.
        names: the names that a row goes by.
        op: a row's operator.
        match: patterns (`*`, `?`, `[...]`); none: all names fit.
        ops: operators; none: all.

    Raises:
        UserError: no row has such an operator, or such a name.
    """
    kept = list(rows)
    operators = {op(row) for row in kept}
    for operator in ops:
        if operator not in operators:
            raise unknown_name("operator in the table named", operator, sorted(operators))
    kept = [row for row in kept if not ops or op(row) in ops]
    chosen = [row for row in kept if fits(names(row), match)]
    if match and kept and not chosen:
        hint = nearest(match[0], sorted({name for row in kept for name in names(row)}))
        raise UserError(f"no row fits {' or '.join(map(repr, match))}", hint=hint)
    return chosen
