"""Reading a plan of the user's: each value checked, and each mistake named that needs no model to be seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxq.base import door
from onnxq.base.tables import (
    At,
    Keys,
    Reader,
    choice,
    is_not,
    load,
    number,
    read_table,
    table,
    tables,
    text,
    texts,
    truth,
)
from onnxq.base.version import VERSION
from onnxq.formats import FORMATS
from onnxq.options.config import parameter_readers, settle_method
from onnxq.options.profile import Profile
from onnxq.options.settings import BODIES, LAYER_METHODS, SCALE_FORMS
from onnxq.quant.plan_arrays import unpack, unpack_arrays
from onnxq.quant.plan_file import (
    FORMAT,
    IN_FILE,
    BodyEntry,
    GroupEntry,
    LayerEntry,
    PlanFile,
    RepairEntry,
    TensorEntry,
    WeightEntry,
    key_of,
)

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def read_plan(path: Path) -> PlanFile:
    """Reads a file.

    Raises:
        UserError: it is not there, is none, or says something that makes no sense of any model.
    """
    return load(path, lambda data, document: _plan(path, data, document))


def _format(key: str, value: Any) -> int:
    if value != FORMAT or type(value) is not int:
        kind = f"{FORMAT}, the version of the format that this onnxq ({VERSION}) reads"
        raise is_not(key, value, kind, "read it with the onnxq that wrote it, or write it anew: onnxq plan")
    return FORMAT


def _sizes(key: str, value: Any) -> Profile:
    """Sizes, or a range of them: the smallest, the usual and the largest."""
    one = "([0-9]+(x[0-9]+)*)?"
    if not isinstance(value, str) or not re.fullmatch(f"{one}(:{one}:{one})?", value):
        raise is_not(key, value, "sizes", 'write them as "1x3x224x224", or as "1x16:1x20:1x32"')
    sizes = [tuple(int(size) for size in part.split("x") if size) for part in value.split(":")]
    return sizes[0], sizes[len(sizes) // 2], sizes[-1]


def _magnitude(key: str, value: Any) -> float:
    # the shortest decimal of the largest float32 is above it
    if type(value) not in (int, float) or not 0 <= value <= _FLOAT32_MAX * (1 + 2**-25):
        kind = f"a number from 0 to {_FLOAT32_MAX:g}"
        raise is_not(key, value, kind, "give the largest magnitude that codes are to cover")
    return float(value)


def _magnitudes(key: str, value: Any) -> Any:
    if value == IN_FILE:
        return value
    if isinstance(value, list) and value:
        return np.array([_magnitude(f"{key}[{i}]", one) for i, one in enumerate(value)], np.float32)
    if isinstance(value, str | list):
        kind = f'a number, a list of numbers, or "{IN_FILE}"'
        raise is_not(key, value, kind, "give one for all channels, or a list with one for each")
    return np.array(_magnitude(key, value), np.float32)


def _axis(key: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise is_not(key, value, "a whole number from 0", "leave it out for one scale of all the weights")
    return value


def _indices(key: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise is_not(key, value, "a list of numbers of inputs", "the first input is 0")
    return tuple(value)


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = texts(key, value)
    if len(set(names)) < 2:
        raise is_not(key, value, "two names or more", "leave the [[group]] out: each tensor has a scale")
    if len(set(names)) < len(names):
        raise is_not(key, value, "names that are there once", "keep one of them")
    return names


def _layer_format(key: str, value: Any) -> str:
    return str(choice("format", (*FORMATS, "float"))(key, value))


_TOP: Mapping[str, Reader] = {
    "version": _format, "onnxq": text, "target": text, "arrays": text, "repairs": text,
    "measured": text, "model": table, "shapes": table, "shares": table,
    "layer": tables, "tensor": tables, "group": tables, "weight": tables, "float32": tables,
    "body": table, "edit": tables, "bias": tables, "constant": tables, "codes": tables,
}  # fmt: skip
_MODEL: Mapping[str, Reader] = {"name": text, "hash": text}
_LAYER: Mapping[str, Reader] = {
    "node": text, "op": text, "format": _layer_format, "inputs": _indices,
    "scales": choice("form of scales", SCALE_FORMS[:2]), "because": text,
}  # fmt: skip
_TENSOR: Mapping[str, Reader] = {
    "name": text, "amax": _magnitude, "method": choice("method for single tensors", LAYER_METHODS),
    **parameter_readers(), "because": text,
}  # fmt: skip
_GROUP: Mapping[str, Reader] = {"share": _names, "because": texts}
_BODY: Mapping[str, Reader] = {
    "type": choice("body", (*BODIES, "own")), "io": choice("io", (*BODIES, "own")),
    "scales": choice("form of scales", SCALE_FORMS), "settled": truth, "masks": texts,
    "float32_io": texts,
}  # fmt: skip
_FLOAT32: Mapping[str, Reader] = {"node": text, "because": text}
_WEIGHT: Mapping[str, Reader] = {"name": text, "axis": _axis, "amax": _magnitudes, "because": text}


_FITTED: Mapping[str, str] = {"bias": "node", "constant": "name", "codes": "weight"}
"""Tables of what is fitted, and the key of what each is about."""


TABLES: Mapping[str, Mapping[str, Reader]] = {
    "": _TOP, "model": _MODEL, "layer": _LAYER, "tensor": _TENSOR, "group": _GROUP, "weight": _WEIGHT,
    "body": _BODY, "float32": _FLOAT32, **{kind: {key: text} for kind, key in _FITTED.items()},
}  # fmt: skip
"""What reads each key of each table; of the others any key is taken. The table "" is the top of the file."""


def _plan(path: Path, data: Mapping[str, Any], document: str) -> PlanFile:
    if "version" not in data:
        raise At((), "this is no plan: it has no version", "write one with onnxq plan MODEL -o plan.toml")
    _required(read_table({"version": data["version"]}, _TOP, ()), (), "version")
    top = _required(read_table(data, _TOP, ()), (), "target", "model")
    model = _required(read_table(top["model"], _MODEL, ("model",)), ("model",), "hash")
    sizes = read_table(top.get("shapes", {}), dict.fromkeys(top.get("shapes", ()), _sizes), ("shapes",))
    shares = read_table(top.get("shares", {}), dict.fromkeys(top.get("shares", ()), number(1)), ("shares",))
    layers = [LayerEntry(**{"op": "", **v}) for v in _entries(top, "layer", _LAYER, "node", "format")]
    tensors = [
        TensorEntry(**_consistent(i, v)) for i, v in enumerate(_entries(top, "tensor", _TENSOR, "name"))
    ]
    groups = [GroupEntry(**values) for values in _entries(top, "group", _GROUP, "share")]
    weights = list(_entries(top, "weight", _WEIGHT, "name"))
    body = _read_body(top)
    _once("layer", "node", [entry.node for entry in layers])
    _once("tensor", "name", [entry.name for entry in tensors])
    _once("weight", "name", [(values["name"], values.get("axis")) for values in weights])
    _once_shared(groups)
    long = _read_beside(path, "arrays", top["arrays"], unpack) if "arrays" in top else {}
    for index, values in enumerate(weights):
        if isinstance(values.get("amax"), str):
            values["amax"] = _from_file(index, values, long)
    return PlanFile(
        model.get("name", ""),
        model["hash"],
        top["target"],
        sizes,
        tuple(layers),
        tuple(tensors),
        tuple(groups),
        tuple(WeightEntry(**values) for values in weights),
        body,
        _read_repair(path, top),
        path=path,
        document=document,
        shares=shares,
        measured=top.get("measured", ""),
    )


def _read_body(top: Mapping[str, Any]) -> BodyEntry | None:
    """What is not quantized; None where the file does not say."""
    if "body" not in top:
        if "float32" in top:
            raise At(("float32", 0), "[[float32]] is said, and there is no [body]", "state the body's type")
        return None
    said = _required(read_table(top["body"], _BODY, ("body",)), ("body",), "type")
    nodes = [(one["node"], one.get("because", "")) for one in _entries(top, "float32", _FLOAT32, "node")]
    _once("float32", "node", [node for node, _ in nodes])
    body = BodyEntry(**said, float32=dict(nodes))
    if body.io not in ("fp32", "own", body.type):
        message = f"inputs and outputs are {body.io}, and the body is {body.type}"
        raise At(("body", "io"), message, 'write io = "fp32", or the type of the body')
    return body


def _read_repair(path: Path, top: Mapping[str, Any]) -> RepairEntry:
    """What repair changes of the model."""
    edits = tuple(top.get("edit", ()))
    for index, edit in enumerate(edits):
        said = dict.fromkeys(("kind", "tensor"), text)
        _required(
            read_table({key: edit[key] for key in said if key in edit}, said, ("edit", index)),
            ("edit", index), "kind", "tensor",
        )  # fmt: skip
    named = {
        kind: [one[key] for one in _entries(top, kind, {key: text}, key)] for kind, key in _FITTED.items()
    }
    for kind, key in _FITTED.items():
        _once(kind, key, named[kind])
    if not any(named.values()):
        return RepairEntry(edits)
    if "repairs" not in top:
        kind = next(kind for kind, names in named.items() if names)
        message = f"[[{kind}]] is said, and the plan names no file of fitted values"
        raise At((kind, 0), message, 'write repairs = "X.repair.npz" again, or leave it out')
    fitted = _read_beside(path, "repairs", top["repairs"], unpack_arrays)
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for kind, names in named.items():
        for index, name in enumerate(names):
            if f"{kind} {name}" not in fitted:
                message = f"{top['repairs']!r} has nothing for [[{kind}]] {name!r}"
                raise At((kind, index), message, "leave the table out, or write the plan anew: onnxq plan")
            arrays.setdefault(kind, {})[name] = fitted[f"{kind} {name}"]
    return RepairEntry(edits, *(arrays.get(kind, {}) for kind in _FITTED))


def _entries(
    top: Mapping[str, Any], kind: str, readers: Mapping[str, Reader], *keys: str
) -> Iterator[dict[str, Any]]:
    for index, values in enumerate(top.get(kind, ())):
        yield _required(read_table(values, readers, (kind, index)), (kind, index), *keys)


def _required(values: dict[str, Any], at: Keys, *keys: str) -> dict[str, Any]:
    for key in keys:
        if key not in values:
            where = f"[[{at[0]}]] {int(at[1]) + 1}" if len(at) > 1 else f"[{at[0]}]" if at else "the plan"
            raise At(at, f"{where} has no {key}", f"add a line {key} = ...")
    return values


def _consistent(index: int, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a [[tensor]], if they go together."""
    at: Keys = ("tensor", index)
    name = values["name"]
    settle_method(values, at, f"tensor {name!r}: ")
    if "amax" in values and "method" in values:
        raise At(
            at,
            f"tensor {name!r} has an amax and a method, which exclude each other",
            "leave the amax out to have it measured, or the method to have it as it is",
        )
    return values


def _once(kind: str, key: str, names: Sequence[Any]) -> None:
    seen = set()
    for index, name in enumerate(names):
        if name in seen:
            said = name[0] if isinstance(name, tuple) else name
            raise At((kind, index, key), f"[[{kind}]] {said!r} is there twice", "keep one of them")
        seen.add(name)


def _once_shared(groups: Sequence[GroupEntry]) -> None:
    first: dict[str, int] = {}
    for index, group in enumerate(groups):
        for name in group.share:
            if first.setdefault(name, index) != index:
                raise At(
                    ("group", index, "share"),
                    f"tensor {name!r} is in two groups, [[group]] {first[name] + 1} and {index + 1}",
                    "it has one scale: make one group of both, or take it out of one",
                )


def _read_beside(
    path: Path, key: str, name: str, unpacked: Callable[[bytes, str], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of a file beside a plan, by what they are of."""
    file = path.parent / name
    hint = "it belongs to the plan: put it beside it again, or write both anew with onnxq plan"
    try:
        content = door.content(file)
    except (OSError, ValueError) as error:  # a name with a zero byte
        why = getattr(error, "strerror", None) or error
        raise At((key,), f"cannot read {str(file)!r}: {why}", hint) from error
    try:
        return unpacked(content, file.name)
    except ValueError as error:
        raise At((key,), f"{str(file)!r} is another file than was written: {error}", hint) from error


def _from_file(index: int, values: Mapping[str, Any], long: Mapping[str, np.ndarray]) -> np.ndarray:
    amax = long.get(key_of(values["name"], values.get("axis")))
    if amax is None:
        raise At(
            ("weight", index, "amax"),
            f"weight {values['name']!r}: the file of long lists has no amax of it along this axis",
            "give a number or a list of them, or leave amax out for the largest magnitudes",
        )
    return amax
