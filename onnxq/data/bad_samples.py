"""Bad samples: refused, or left out, counted and reported."""

from __future__ import annotations

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.data.understood import LeftOutSample, SkippedSamples

_KEPT = 20


class Misnamed(UserError):
    """A fault of the data's names, as no sample was without it so far: leaving samples out is no way."""


class BadSamples:
    """The bad samples of a source, each once, however often it is read.

    Args:
        allowed: whether bad samples are left out; else the first one is an error.

    Attributes:
        allowed: as above.
        first: where the first 20 are, and why they are bad.
    """

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.first: list[tuple[str, str]] = []
        self._hint = ""
        self._places: set[str] = set()

    @property
    def count(self) -> int:
        """How many there are so far."""
        return len(self._places)

    def meet(self, where: str, error: UserError) -> None:
        """Leaves a sample out.

        Raises:
            UserError: bad samples are not left out.
        """
        if not self.allowed:
            if isinstance(error, Misnamed):
                raise error
            hint = f"{error.hint.rstrip('.')}, or leave bad samples out with --skip-bad".removeprefix(", or ")
            raise UserError(str(error), hint=hint) from error
        self._hint = self._hint or error.hint
        self.add(where, str(error))

    def add(self, where: str, why: str) -> None:
        """Counts a sample that is left out."""
        if where not in self._places and len(self.first) < _KEPT:
            self.first.append((where, why))
        self._places.add(where)

    def all_bad(self) -> UserError:
        """The error where no sample is left."""
        return UserError(f"there is no good sample: {self._text()}", hint=self._hint)

    @property
    def notes(self) -> list[str]:
        """What was left out, in a line."""
        return [self._text()] if self.first else []

    def told(self) -> SkippedSamples:
        """What was left out, for the report."""
        return SkippedSamples(self.count, tuple(LeftOutSample(*one) for one in self.first))

    def _text(self) -> str:
        (where, why), *_ = self.first
        reason = why if where in why else f"{where}: {why}"
        if self.count == 1:
            return noted("left-out.sample", first=reason)
        return noted("left-out.samples", count=self.count, first=reason)
