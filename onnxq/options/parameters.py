"""The parameters of the calibration methods, as fields of what says or has them.

`parameters.pyi` says to type checkers what these classes have; `make options` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, field, make_dataclass
from typing import Any

from onnxq.options.exclusions import unsaid
from onnxq.options.method import Parameter, names, parameters
from onnxq.options.option import UnsaidText, at_most, one_of, option

_First = tuple[str, str, Any]


def _made(name: str, says: str, first: tuple[_First, ...], of: Callable[[Parameter], Field[Any]]) -> type:
    """A frozen dataclass: first fields, and one for each parameter; the user's are given by name only."""
    fields: list[Any] = list(first)
    for key, owner in parameters().items():
        assert owner.parameter is not None
        found = of(owner.parameter)
        if not owner.ours:
            found.kw_only = True
        fields.append((key, "float", found))
    namespace = {"__module__": __name__, "__doc__": says}
    return make_dataclass(name, fields, frozen=True, slots=True, namespace=namespace)


def _flag(said: Parameter) -> Any:
    return option(unsaid(said.name), said.help, at_most(said.most), metavar=said.metavar, beside="method")


_LISTED = ", ".join(("auto", *names()[:-1])) + f" or {names()[-1]}"
_METHOD = option(
    UnsaidText("auto"),
    f"How ranges are chosen: {_LISTED}.",
    one_of("method", (*names(), "auto")),
    metavar="NAME",
)

MethodOptions = _made(
    "MethodOptions", "A method and its parameter, as options.", (("method", "str", _METHOD),), _flag
)
NamedMethod = _made(
    "NamedMethod", "A method by name, and all parameters.", (("name", "str", field()),),
    lambda said: field(default=said.default),
)  # fmt: skip
StatedParameters = _made(
    "StatedParameters", "What is stated of parameters; None: nothing.", (),
    lambda said: field(default=None, kw_only=True),
)  # fmt: skip


def stated(said: Any) -> Mapping[str, Any]:
    """The parameters that are stated, by name."""
    found = {name: getattr(said, name) for name in parameters()}
    return {name: value for name, value in found.items() if value is not None}
