"""A time limit of a run: what is searched for ends with what there is, and the run goes on to its end."""

from __future__ import annotations

import math
import time

from onnxq.base.progress import Observer


class TimeIsUp(BaseException):
    """A run's time limit is reached; no exception that a handler of faults would take for one."""


class TimeLimit:
    """The time that a run may take until its searches end; it counts from now.

    Inside of `with` it ends what tells how far it is, when the time is up.

    Attributes:
        seconds: how long that is; None: as long as it takes.
    """

    def __init__(self, seconds: float | None) -> None:
        """Begins to count."""
        self.seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1

    @property
    def left(self) -> float:
        """How many seconds are left; infinite without a limit."""
        return self._end - time.monotonic() if self._end < math.inf else math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.left < 0

    def check(self) -> None:
        """Ends what is inside of `with` when the time is up.

        Raises:
            TimeIsUp: it is.
        """
        if self._depth and self.is_over:
            raise TimeIsUp

    def __str__(self) -> str:
        """It in words."""
        return f"the time limit of {self.seconds:g} s"

    def observing(self, observe: Observer) -> Observer:
        """An observer that hands all on to another one, and ends what it hears of when the time is up.

        Raises:
            TimeIsUp: it is; when it is called.
        """

        def heard(step: str, done: int | None, total: int | None) -> None:
            observe(step, done, total)
            if done is not None:
                self.check()

        return heard
