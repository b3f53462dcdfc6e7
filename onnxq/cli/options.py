"""The flags that verbs share, and how their values are read."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from onnxq.errors import UserError
from onnxq.run.profiles import Profile

T = TypeVar("T")
Sizes = tuple[int, ...]

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model.", show_default=False)]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="X.onnx", help="The model to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that onnxq did not write.")]
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", help="tensorrt-11 (default), tensorrt-rtx, ... (see the README)."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="INPUT=1x3x224x224", help="Shape of an input; sizes or symbols."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="DIM=1", help="State the size of a dynamic dimension."),
]
Freeze = Annotated[
    list[str] | None,
    typer.Option("--freeze", metavar="INPUT=VALUE", help="Make an input a constant: numbers or true/false."),
]
RuleFolders = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="DIR", help="A folder of your own rules; their Python is run."),
]
OrtOps = Annotated[
    list[Path] | None,
    typer.Option("--ort-ops", metavar="LIB", help="A library of custom operators for onnxruntime."),
]
Enable = Annotated[
    list[str] | None, typer.Option("--enable", metavar="RULE", help="Turn a rule on for this target.")
]
SkipRules = Annotated[list[str] | None, typer.Option("--skip", metavar="RULE", help="Leave a rule out.")]
InterfaceChanges = Annotated[
    bool,
    typer.Option(
        "--allow-interface-changes", help="Let rules give inputs and outputs another type or shape."
    ),
]
ProveLevel = Annotated[
    str,
    typer.Option(
        "--prove", metavar="LEVEL", help="always, when-possible (keep and list the unproved), or never."
    ),
]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile", metavar="INPUT=MIN:OPT:MAX", help="Shapes of a dynamic input: 1x3x8x8:4x3x8x8:8x3x8x8."
    ),
]
ComputeCapability = Annotated[
    int, typer.Option("--sm", metavar="N", help="Compute capability to compile for, 89 for 8.9.")
]


def takes_ort_ops(function: Callable[..., T]) -> Callable[..., T]:
    """Gives a verb the flag --ort-ops; its libraries are registered while the verb runs."""

    @functools.wraps(function)
    def verb(*arguments: Any, ort_ops: list[Path] | None, **named: Any) -> T:
        if not ort_ops:
            return function(*arguments, **named)
        from onnxq.run import ort

        with ort.custom_ops(ort_ops):
            return function(*arguments, **named)

    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())
    flag = inspect.Parameter("ort_ops", own[-1].kind, default=None, annotation=OrtOps)
    verb.__signature__ = signature.replace(parameters=[*own, flag])  # type: ignore[attr-defined]
    return verb


def edit_arguments(
    target: str,
    shapes: Sequence[str] | None,
    assume: Sequence[str] | None,
    freeze: Sequence[str] | None,
    rules: Sequence[Path] | None,
    enable: Sequence[str] | None,
    skip: Sequence[str] | None,
    prove: str,
) -> dict[str, Any]:
    """The arguments of `onnxq.sanitize` for the flags of the same names.

    Raises:
        UserError: a flag's value is ill-formed.
    """
    return {
        "target": target,
        **bind_arguments(shapes, assume, freeze),
        "rules": tuple(rules or ()),
        "enable": tuple(enable or ()),
        "skip": tuple(skip or ()),
        "prove": prove,
    }


def bind_arguments(
    shapes: Sequence[str] | None, assume: Sequence[str] | None, freeze: Sequence[str] | None
) -> dict[str, Any]:
    """Those of them that state something about inputs.

    Raises:
        UserError: a flag's value is ill-formed.
    """
    return {
        "shapes": parse_shapes(shapes),
        "assume": _named("--assume", assume, "DIM=SIZE, as in N=1", size),
        "freeze": _named("--freeze", freeze, "INPUT=VALUE[,VALUE...], numbers or true/false", _values),
    }


def names(*entries: str) -> list[str]:
    """The tensors of `A,B` entries."""
    return [name for entry in entries for name in entry.split(",") if name]


def parse_shapes(shapes: Sequence[str] | None) -> dict[str, tuple[int | str, ...]]:
    """The values of `--shape`.

    Raises:
        UserError: one is ill-formed.
    """
    return _named("--shape", shapes, "INPUT=1x3x224x224, each a size or a symbol", _shape)


def parse_input_names(entries: Sequence[str] | None) -> dict[str, str]:
    """The values of `--input-name`: the data's name by the input's.

    Raises:
        UserError: one is ill-formed.
    """
    return _named("--input-name", entries, "INPUT=NAME, the model's input and its name in the data", _some)


def parse_profiles(profiles: Sequence[str] | None) -> dict[str, Profile]:
    """The values of `--profile`: (min, opt, max) for each input.

    Raises:
        UserError: one is ill-formed.
    """
    return _named("--profile", profiles, "INPUT=MIN:OPT:MAX, as in x=1x3x8x8:4x3x8x8:8x3x8x8", _profile)


def _named(flag: str, entries: Sequence[str] | None, form: str, read: Callable[[str], T]) -> dict[str, T]:
    """`NAME=VALUE` entries. A name may hold "=" and ":", a value cannot: the last "=" parts them."""
    found: dict[str, T] = {}
    for entry in entries or ():
        name, equals, value = entry.rpartition("=")
        hint = f"the form is {flag} {form}"
        if not equals or not name:
            raise UserError(f"{flag} {entry!r} is not understood", hint=hint)
        if name in found:
            raise UserError(f"{flag} is given twice for {name!r}", hint="give it once")
        try:
            found[name] = read(value)
        except ValueError as error:
            raise UserError(f"{flag} {entry!r} is not understood: {error}", hint=hint) from error
    return found


def size(text: str) -> int:
    """A size.

    Raises:
        ValueError: the text is none.
    """
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError(f"{text!r} is no size")
    return int(text)


def _some(text: str) -> str:
    if not text:
        raise ValueError("there is no name")
    return text


def _shape(text: str) -> tuple[int | str, ...]:
    # commas, where a symbol holds an "x"
    return tuple(_dim(part) for part in re.split("," if "," in text else "x", text))


def _dim(text: str) -> int | str:
    if re.fullmatch(r"[^\W\d].*", text.strip()):
        return text.strip()
    return size(text)


def sizes(text: str) -> Sizes:
    """Sizes with an "x" between them, as in 3x224x224.

    Raises:
        ValueError: the text is no such list.
    """
    return tuple(size(part) for part in text.split("x"))


def _profile(text: str) -> Profile:
    parts = text.split(":")
    if len(parts) != 3:
        raise ValueError(f"{len(parts)} shapes where there must be three")
    smallest, usual, largest = map(sizes, parts)
    return smallest, usual, largest


def _values(text: str) -> bool | int | float | list[bool | int | float]:
    values = [_value(part.strip()) for part in text.split(",")]
    if len({isinstance(value, bool) for value in values}) > 1:
        raise ValueError("numbers and true/false are mixed")
    return values[0] if len(values) == 1 else values


def _value(text: str) -> bool | int | float:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
