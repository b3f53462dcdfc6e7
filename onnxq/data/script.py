"""A data loader script, as Polygraphy's `--data-loader-script` takes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from onnxq.base.errors import UserError
from onnxq.base.user_code import CodeForm, UserFunction, load_function

_FORM = "def load_data(): yield {'input': array, ...} once for each sample"
_ASKED = CodeForm(
    "data loader script", _FORM, "SCRIPT.py or SCRIPT.py:FUNCTION", "load_data",
    "give data with --calib or --data; of a script ",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Script:
    """The samples of a script: its function is called anew for each pass over them.

    Attributes:
        function: its function.
    """

    function: UserFunction

    def __str__(self) -> str:
        return str(self.function)

    def __iter__(self) -> Iterator[Any]:
        """What the function yields.

        Raises:
            UserError: it raised an error, or gave nothing that can be iterated over, or no sample.
        """
        with self.function.running():
            items = self.function.call()
            iterator = iter(items) if isinstance(items, Iterable) else None
        if iterator is None:
            raise UserError(f"{self} returned {type(items).__name__}", hint=f"the form is {_FORM}")
        empty = True
        while True:
            with self.function.running():
                try:
                    item = next(iterator)
                except StopIteration:
                    break
            empty = False
            yield item
        if empty:
            raise UserError(f"{self} yielded zero samples", hint=f"the form is {_FORM}")


def load_script(spec: str | os.PathLike[str]) -> Script:
    """Loads a data loader script; its Python is run.

    Args:
        spec: `SCRIPT` or `SCRIPT:FUNCTION`; the function, `load_data` by default, takes no
            arguments and yields `{input: array}` for each sample, or returns an iterable of such.

    Raises:
        UserError: there is no such script or function, or the script raises an error.
    """
    return Script(load_function(spec, _ASKED))
