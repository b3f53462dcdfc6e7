"""A plan as a file of the user's: TOML that is written, read, and checked but for what needs the model.

    version = 1
    onnxq = "0.1.0"
    target = "tensorrt-11"

    [model]
    name = "model.onnx"
    hash = "5d41..."

    [[layer]]
    node = "/head/Conv"
    op = "Conv"
    format = "float"
    because = "boxes lose precision"

    [[layer]]
    node = "/block/Add"
    op = "Add"
    format = "int8"
    inputs = [0, 1]

    [body]
    type = "fp16"
    io = "fp32"
    scales = "post-scale"
    settled = true

    [[float32]]
    node = "/norm/Pow"
    because = "Pow makes much of what its operand is rounded by"

    [[tensor]]
    name = "x"
    amax = 2.640625
    because = "mse"

    [[group]]
    share = ["x", "y"]

    [[weight]]
    name = "w"
    axis = 0
    amax = [0.5, 0.25]

    [[edit]]
    kind = "shift"
    tensor = "y"
    by = 1.5

    [[bias]]
    node = "/head/Conv"

Numbers are the shortest decimals that give the same bits again. Long lists of them are in a file beside
it, which has their hash in its name; so are fitted biases, constants and codes, in another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.escapes import escaped, in_one_line
from onnxq.base.tables import (
    At,
    Keys,
)
from onnxq.base.version import VERSION
from onnxq.options.method import parameters
from onnxq.options.parameters import StatedParameters
from onnxq.options.profile import Profile
from onnxq.quant.plan_arrays import pack, pack_arrays
from onnxq.run.profiles import text_of

FORMAT = 1
"""The version of the format that is written, and the only one that is read."""

BodyType = Literal["fp16", "bf16", "fp32", "own"]

IN_FILE = "file"
"""What stands for a long list of amax, which is in the file beside."""

_LISTED = 16  # amax of more channels are in the file beside it

_HEAD = """\
# The quantization plan of {model}. Edit it, then: onnxq quantize {model} --plan {plan}
#
# [[layer]]   A node in a number format, or in "float". Any other node may be added, with format = "float".
#             inputs = [0, 1] of an Add are those that it reads quantized, whatever else is.
# [[tensor]]  A quantized activation, for values from -amax to amax. Without amax it is measured, which needs
#             --calib or --stats: by the run's method, or by method = "entropy" or another one of its own.
# [[group]]   Tensors with one scale, the widest. One in no group has a scale of its own.
# [[weight]]  An amax for each channel along axis, or one for all; without it, the largest magnitudes.
# [[edit]]    An edit of the float model, which computes what it computed; [[tensor]] is of what it makes.
# [[bias]]    A node with a fitted bias; [[constant]] and [[codes]]: a constant with fitted values, or codes
#             that are not the nearest ones. Without its table each is as in the model.
# [body]      The type of what is not quantized, and of inputs and outputs (io). [[float32]] is what stays
#             float32 of it. Where it is settled, that is all, and each quantized layer says the form of its
#             scales; without settled = true more and the forms are found again, which needs data.
"""


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """A node, and what it runs in.

    Attributes:
        node: its name.
        op: its operator; "": the file does not say.
        format: `int8`, `fp8` or `float`.
        because: why.
        inputs: those that a layer in float reads quantized; of a sum those that it is to read quantized, and
            no other ones.
        scales: the form of its weights' scales, `post-scale` or "": as [[weight]] says.
        note: what a reader of the file may want to know.
    """

    node: str
    op: str
    format: str
    because: str = ""
    inputs: tuple[int, ...] = ()
    scales: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class BodyEntry:
    """What is not quantized.

    Attributes:
        type: its type, `fp16`, `bf16`, `fp32`; `own`: what the model has.
        io: that of inputs and outputs; `own`: what the model has.
        scales: the form of weight scales, of `onnxq.options.settings.SCALE_FORMS`.
        settled: whether it is stated what stays float32, and which layers have which form.
        masks: names of what holds values of a mask beyond half precision.
        float32_io: names of the inputs and outputs that stay float32 whatever `io` says.
        float32: what stays float32, and why, by node; where that is not settled, more may.
    """

    type: BodyType
    io: BodyType = "fp32"
    scales: str = "per-channel"
    settled: bool = False
    masks: tuple[str, ...] = ()
    float32_io: tuple[str, ...] = ()
    float32: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorEntry(StatedParameters):
    """An activation in int8; the parameter of its method is a field of its own (`percentile`).

    Attributes:
        name: its name.
        amax: the magnitude that the largest code stands for, from 0; None: to be measured, or of others.
        method: one of `LAYER_METHODS`, what it is to be measured by; None: the run's.
        because: where the amax is from.
        note: what a reader of the file may want to know.
    """

    name: str
    amax: float | None = None
    method: str | None = None
    because: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """Activations with one scale, and why."""

    share: tuple[str, ...]
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WeightEntry:
    """A constant in int8.

    Attributes:
        name: its name.
        axis: its channel axis; None: one scale.
        amax: float32 [channels], or [] for all of them; None: the largest magnitudes.
        because: why.
    """

    name: str
    axis: int | None = None
    amax: np.ndarray | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RepairEntry:
    """What repair of accuracy changes of the model.

    Attributes:
        edits: edits of the float model, in order, as `FloatEdit.to_dict` gives them.
        biases: by node, see `Patches`.
        constants: likewise by constant.
        codes: likewise by weight.
    """

    edits: tuple[Mapping[str, Any], ...] = ()
    biases: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        """Whether it changes anything."""
        return bool(self.edits or self.biases or self.constants or self.codes)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What is in the file beside, by what it is found by there."""
        return {f"{kind} {name}": values for kind, _, named in self.named for name, values in named.items()}

    @property
    def named(self) -> Sequence[tuple[str, str, Mapping[str, np.ndarray]]]:
        """The tables of what is in the file beside: their kind, the key of the name, the arrays by name."""
        return (
            ("bias", "node", self.biases), ("constant", "name", self.constants),
            ("codes", "weight", self.codes),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PlanFile:
    """What a file says.

    Attributes:
        model: the name of the model's file, for the reader.
        hash: the fingerprint of the model, with what was stated of its inputs.
        target: what the plan is for.
        sizes: the smallest, the usual and the largest shape, by input; of several deployments by NAME/INPUT.
        shares: the share of each of several deployments in the work, by its name.
        layers: nodes in int8, layers in float, and what the user adds.
        tensors: activations.
        groups: those of more than one tensor.
        weights: constants.
        body: what is not quantized; None: the file does not say.
        repair: what repair changes of the model.
        origin: where the ranges are from, for the reader.
        path: the file; None: not read from one.
        document: its text.
        measured: how fast its file is, and on what that was measured; "": nobody measured.
    """

    model: str
    hash: str
    target: str
    sizes: Mapping[str, Profile]
    layers: tuple[LayerEntry, ...] = ()
    tensors: tuple[TensorEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    weights: tuple[WeightEntry, ...] = ()
    body: BodyEntry | None = None
    repair: RepairEntry = field(default_factory=RepairEntry)
    origin: str = ""
    path: Path | None = None
    document: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)
    measured: str = ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The usual ones of the sizes."""
        return {name: tuple(usual) for name, (_, usual, _) in self.sizes.items()}

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that single tensors are to be measured by."""
        return tuple(entry.method for entry in self.tensors if entry.method is not None)

    def error(self, keys: Keys, message: str, hint: str = "") -> UserError:
        """An error about what stands somewhere in the file; `keys`: the way to it in its data."""
        error = At(keys, message, hint)
        return error if self.path is None else error.in_file(self.path, self.document)

    def check_float32(self, nodes: Collection[str], ends: Collection[str], tensors: Collection[str]) -> None:
        """Refuses nodes, and inputs and outputs, that stay float32 and are none of the model; and masks.

        Raises:
            UserError: there is one.
        """
        if self.body is None:
            return
        said: list[tuple[Keys, str, str, Collection[str]]] = [
            (("float32", index, "node"), "node", node, nodes) for index, node in enumerate(self.body.float32)
        ]
        said += [(("body", "float32_io"), "input or output", name, ends) for name in self.body.float32_io]
        said += [(("body", "masks"), "tensor", name, tensors) for name in self.body.masks]
        for keys, what, name, names in said:
            if name not in names:
                unknown = unknown_name(what, name, sorted(names))
                raise self.error(keys, str(unknown), unknown.hint)

    def files(self, name: str) -> dict[str, bytes]:
        """The content of the files that hold the plan.

        Args:
            name: of the file itself, `X.toml`.

        Returns:
            The content by name: that of the long lists, where there are any, comes first.
        """
        long = {
            key_of(entry.name, entry.axis): entry.amax
            for entry in self.weights
            if entry.amax is not None and entry.amax.size > _LISTED
        }
        digest, content = pack(long)
        stem = encodable(Path(name).stem)
        beside = {f"{stem}.{digest}.npz": content} if long else {}
        fitted = self.repair.arrays
        digest, content = pack_arrays(fitted)
        repairs = {f"{stem}.repair.{digest}.npz": content} if fitted else {}
        lines = "\n".join(self._tables(name, next(iter(beside), ""), next(iter(repairs), "")))
        return {**beside, **repairs, name: escaped(lines, toml=True).encode()}

    def _tables(self, name: str, arrays: str, repairs: str) -> Iterator[str]:
        head = {"version": FORMAT, "onnxq": VERSION, "target": self.target}
        yield _HEAD.format(model=in_one_line(self.model) or "MODEL", plan=in_one_line(name))
        files = {key: file for key, file in (("arrays", arrays), ("repairs", repairs)) if file}
        yield tomli_w.dumps({**head, **files} | ({"measured": self.measured} if self.measured else {}))
        yield tomli_w.dumps({"model": {"hash": self.hash} | ({"name": self.model} if self.model else {})})
        if self.sizes:
            sizes = {name: text_of(profile) for name, profile in self.sizes.items()}
            yield f"# The smallest, the usual and the largest sizes.\n{tomli_w.dumps({'shapes': sizes})}"
        if self.shares:
            yield f"# The shares of the work.\n{tomli_w.dumps({'shares': dict(self.shares)})}"
        if self.origin:
            yield f"# Ranges: {in_one_line(self.origin)}\n"
        for layer in self.layers:
            said = {"node": layer.node, "op": layer.op, "format": layer.format}
            yield _table("layer", said | _given(layer, "inputs", "scales", "because"), layer.note)
        for tensor in self.tensors:
            said = {"name": tensor.name}
            more = _given(tensor, "amax", "method", *parameters(), "because")
            yield _table("tensor", said | more, tensor.note)
        for group in self.groups:
            yield _table("group", {"share": group.share} | _given(group, "because"))
        for weight in self.weights:
            said = {"name": weight.name} | _given(weight, "axis")
            yield _table("weight", said | _amax(weight) | _given(weight, "because"))
        for edit in self.repair.edits:
            flat = {key: value for key, value in edit.items() if not isinstance(value, Mapping)}
            inner = {key: value for key, value in edit.items() if isinstance(value, Mapping)}
            yield _table("edit", flat) + (tomli_w.dumps({"edit": inner}) if inner else "")
        for kind, key, named in self.repair.named:
            yield from (_table(kind, {key: one}) for one in named)
        if self.body is not None:
            yield tomli_w.dumps({"body": _body(self.body)})
            for node, because in self.body.float32.items():
                yield _table("float32", {"node": node} | ({"because": because} if because else {}))


def _table(kind: str, values: Mapping[str, Any], note: str = "") -> str:
    comment = f"# {in_one_line(note)}\n" if note else ""
    return f"{comment}[[{kind}]]\n{tomli_w.dumps(values)}"


def _body(body: BodyEntry) -> dict[str, Any]:
    said = {"type": body.type, "io": body.io, "scales": body.scales, "settled": body.settled}
    return said | {name: list(names) for name in ("masks", "float32_io") if (names := getattr(body, name))}


def _given(entry: Any, *names: str) -> dict[str, Any]:
    """The fields of an entry that say something."""
    values = {name: getattr(entry, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value not in ("", ())}


def _amax(weight: WeightEntry) -> dict[str, Any]:
    if weight.amax is None:
        return {}
    if weight.amax.size > _LISTED:
        return {"amax": IN_FILE}
    if not weight.amax.shape:
        return {"amax": _short(np.float32(weight.amax))}
    return {"amax": [_short(np.float32(value)) for value in weight.amax]}


def _short(value: np.float32) -> float:
    """A float32 as the float of the fewest digits that is rounded to it."""
    short = float(str(value))
    return short if np.float32(short) == value else float(value)


def encodable(name: str) -> str:
    """The name of a file without what is no text."""
    return name.encode("utf-8", "replace").decode("utf-8")


def key_of(name: str, axis: int | None) -> str:
    """What the long list of a weight is found by in the file beside."""
    return f"{'' if axis is None else axis} {name}"
