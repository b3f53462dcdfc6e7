"""Models that run one after another, each on the inputs and on what the ones before it gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.run.ort import RunError, Session


class Chain:
    """Sessions in a chain; a tensor is dropped after its last use.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
        labels: what errors call the sessions.
        passed: names of the tensors that a session gives and a later one reads, in order.
    """

    def __init__(
        self, sessions: Mapping[str, Session], inputs: Sequence[str], outputs: Sequence[str]
    ) -> None:
        """Checks that the sessions fit together.

        Args:
            sessions: the sessions in order, by the names that errors call them.
            inputs: names of what is fed to the chain.
            outputs: names of what it gives.

        Raises:
            UserError: a session reads, or the chain is to give, what no session before it gives.
        """
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.labels = tuple(sessions)
        self._sessions = dict(sessions)
        self._last: dict[str, str] = {}
        known = dict.fromkeys(inputs, "")
        for name, session in sessions.items():
            _check(f"{name!r} reads", session.inputs, known)
            self._last |= dict.fromkeys(session.inputs, name)
            known |= dict.fromkeys(session.outputs, name)
        _check("the chain is to give", outputs, known)
        self.passed = tuple(name for name, maker in known.items() if maker and name in self._last)

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """Runs the chain once.

        Args:
            feeds: an array for each input.
            outputs: the outputs wanted, or tensors that are passed; all outputs by default.

        Raises:
            RunError: a session does not run; the message names it.
        """
        wanted = self.outputs if outputs is None else outputs
        values: dict[str, Any] = dict(feeds)
        for label, session in self._sessions.items():
            needed = [name for name in session.outputs if name in wanted or name in self._last]
            try:  # for no outputs onnxruntime gives all
                given = session.run({name: values[name] for name in session.inputs}, needed) if needed else []
            except RunError as error:
                raise RunError(f"{label}: {error}", hint=error.hint) from error
            values.update(zip(needed, given, strict=True))
            for name in session.inputs:
                if self._last[name] == label and name not in wanted:
                    del values[name]
        return [values[name] for name in wanted]


def _check(who: str, names: Sequence[str], known: Mapping[str, str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(
                f"{who} {name!r}, which nothing before it gives",
                hint="a piece must keep the names of the inputs and outputs that it was cut with",
            )
