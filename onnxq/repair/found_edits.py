"""What a search for edits answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from onnxq.base.errors import UserError
from onnxq.base.reason import reason
from onnxq.quant.draft.edits import FloatEdit


class NoFit(Exception):
    """An edit does not fit here.

    Attributes:
        why: the reason, as the ledger has it.
    """

    def __init__(self, code: str, /, **values: object) -> None:
        """By a code of `onnxq.base.reason.reason`, and the values of its text."""
        self.why = reason(code, **values)
        super().__init__(self.why)


@contextmanager
def applied(what: str, done: str) -> Iterator[None]:
    """Says of an edit that does not fit here what cannot be done to what.

    Raises:
        UserError: it does not fit.
    """
    try:
        yield
    except NoFit as error:
        raise UserError(f"{what} cannot be {done}: {error}", hint="the edit is of another model") from error


@dataclass(frozen=True, slots=True)
class FoundEdits:
    """Edits of one kind.

    Attributes:
        edits: independent of each other: any of them, in this order, fit the model.
        skipped: why tensors that come near are left as they are.
        macs: the further int8 multiply-accumulates of an inference that an edit costs, by its tensor; not
            there where it costs none, or the size is not known.
    """

    edits: tuple[FloatEdit, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    macs: Mapping[str, int] = field(default_factory=dict)
