"""How a run tells what it does while it does it: to whoever observes, and to the logger `onnxq`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from onnxq.base.escapes import visible

Observer = Callable[[str, int | None, int | None], None]
"""Is told each step's name; while a step counts, how much is done, and of how much where known."""


def _seen(record: logging.LogRecord) -> bool:
    """Has no name in a record end its line, or act where the log is read."""
    record.msg, record.args = visible(record.getMessage()), ()
    return True


LOG = logging.getLogger("onnxq")
"""Steps at INFO, how long they took at DEBUG, remarks at WARNING; the user says where that goes."""

LOG.addFilter(_seen)
LOG.addHandler(logging.NullHandler())  # else what is a warning would be printed where nobody listens


class Steps:
    """An observer that logs each step, and hands all on to that of the user.

    Faults of the user's observer are the user's: they end the run, as an interruption does.
    """

    def __init__(self, observe: Observer | None = None) -> None:
        """Tells `observe`, where there is one."""
        self._observe, self._step, self._since = observe, "", 0.0

    def __call__(self, step: str, done: int | None = None, total: int | None = None) -> None:
        """Is told of a step, or how far one is."""
        if step != self._step or done is None:
            self._took()
            self._step, self._since = step, time.monotonic()
            LOG.info("%s", step)
        if self._observe is not None:
            self._observe(step, done, total)

    def _took(self) -> None:
        if self._step:
            LOG.debug("%s: %.2f s", self._step, time.monotonic() - self._since)


def told(observe: Observer | None) -> Observer:
    """Who is told the steps of a run: the log, and the user's observer."""
    return observe if isinstance(observe, Steps) else Steps(observe)
