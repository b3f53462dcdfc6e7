"""Cutting a model until each piece for an engine compiles: what NVIDIA's compiler refuses is apart."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.documents.changes import NotTaken
from onnxq.emit import files
from onnxq.graph.cut import Cutter, Piece
from onnxq.graph.layers import layer_of, other_macs
from onnxq.graph.model import Model
from onnxq.graph.types import is_static, set_shape, shape_of
from onnxq.graph.view import Node
from onnxq.pipeline.not_taken import unsupported
from onnxq.run import ort, trt
from onnxq.run.profiles import Profile, as_profile
from onnxq.targets import COMPILER, Target

MOST = 256
"""Compilations after which what does not compile yet runs in onnxruntime, unsearched."""

_SECONDS = 300.0  # of one compilation
_FEW = 64  # integers of a tensor that may decide sizes


@dataclass(slots=True)
class TensorsSeen:
    """What the tensors of a model were in runs.

    Attributes:
        shapes: by name, a shape for each run.
        numbers: by name, the integers in it for each run; only of tensors of few, and one axis at most.
    """

    shapes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    numbers: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, samples: Iterable[Mapping[str, np.ndarray]]) -> TensorsSeen:
        """Runs a model on samples, `{input: array}`, node by node; its `typical_shapes` are the first one's.

        Raises:
            RunError: it does not run.
        """
        proto, seen, samples = model.to_proto(), cls(), list(samples)
        if not samples:
            return seen
        tensors = dict.fromkeys(one.name for node in model.nodes for one in node.outputs if one.name)
        session = ort.opened(proto, tensors, model.data_dir)
        for feeds in samples:
            values = session.run({name: feeds[name] for name in session.inputs})
            for name, value in {**feeds, **dict(zip(session.outputs, values, strict=True))}.items():
                if isinstance(value, np.ndarray):
                    seen._add(name, value)
        model.typical_shapes = {name: shapes[0] for name, shapes in seen.shapes.items()}
        return seen

    def _add(self, name: str, value: np.ndarray) -> None:
        self.shapes.setdefault(name, []).append(value.shape)
        if value.ndim < 2 and value.size <= _FEW and value.dtype.kind in "iu":
            self.numbers.setdefault(name, []).append(tuple(map(int, value.reshape(-1))))

    def profile(self, name: str) -> Profile | None:
        """The smallest, the usual and the largest shape; None where it was in no run, or of several ranks."""
        return _three(self.shapes.get(name, ()))

    def three_numbers(self, name: str) -> Profile | None:
        """The same of the numbers in it."""
        return _three(self.numbers.get(name, ()))


def _three(seen: Sequence[tuple[int, ...]]) -> Profile | None:
    if len({*map(len, seen)}) != 1:
        return None
    ordered = [sorted(axis) for axis in zip(*seen, strict=True)]
    return as_profile([[axis[place] for axis in ordered] for place in (0, len(seen) // 2, -1)])


@dataclass(frozen=True, slots=True)
class Around:
    """A model in pieces, each of which compiles or runs in onnxruntime.

    Attributes:
        pieces: in the order in which they run.
        refused: by node, why it is in no engine.
        profiles: of each piece, the shapes of its dynamic inputs as compiled for.
        numbers: likewise those in its integer inputs, which may decide sizes.
    """

    pieces: Sequence[Piece]
    refused: Mapping[str, NotTaken]
    profiles: Sequence[Mapping[str, Profile]]
    numbers: Sequence[Mapping[str, Profile]]


def check_compiles(target: Target) -> None:
    """Refuses a target for which nothing here compiles.

    Raises:
        UserError: the compiler is not installed, or does not speak for the target.
    """
    if trt.installed() is None:
        message, _, hint = trt.missing().partition("; ")
        raise UserError(message, hint=hint)
    if not target.is_compiled_here:
        raise UserError(
            f"nothing here compiles for {target.title}, so that it is not known what it refuses",
            hint="cut at its operators: --at-op OP; onnxq check names them",
        )


class Cutting:
    """Asks the compiler, and cuts a model around what it refuses.

    Nodes that the target's table or the parser name are apart at once. Where the builder fails, the first
    node with which a piece fails is searched for by halves: it is apart if it does not compile alone; else
    the piece is cut in front of it.

    Attributes:
        whole: why it is not compiled in one piece; "" where it is.
    """

    def __init__(
        self, model: Model, target: Target, sm: int, seen: TensorsSeen, tell: Callable[[int], None]
    ) -> None:
        """Compiles the model in one piece.

        Args:
            model: the model.
            target: what the engines are for.
            sm: the compute capability, 89 for 8.9.
            seen: what its tensors were in runs.
            tell: is told how many compilations there were.

        Raises:
            UserError: no output needs a node.
        """
        self._model, self._sm, self._seen, self._tell = model, sm, seen, tell
        self._cutter = Cutter(model, ort.output_types)
        self._ops = {node.name: node.op for node in model.nodes}
        self._refused: dict[str, NotTaken] = {}
        self._engines: dict[tuple[tuple[str, ...], ...], trt.Engine] = {}
        if target.name != COMPILER:  # of its own operators the compiler itself knows more
            for one in unsupported(model, target):
                self._refuse(one.node, one.reason)
        whole = self._cutter.around(())
        if not whole:
            raise UserError("no node of the model computes an output", hint="there is nothing to compile")
        told = next(iter(self._refused.values()), None)
        engine = self._engine(whole[0])
        self.whole = _first(engine) if engine.status != "compiled" else told.reason if told else ""

    @property
    def compilations(self) -> int:
        """How many there were."""
        return len(self._engines)

    def around(self) -> Around:
        """The pieces.

        Raises:
            UserError: the type of a tensor at which the model is cut is not known.
        """
        behind: list[Sequence[str]] = []
        for rounds in itertools.count():
            pieces = self._cutter.around(self._refused, behind)
            failing = [piece for piece in pieces if not piece.isolated and not self._compiles(piece)]
            if not failing:
                break
            if max(rounds, self.compilations) >= MOST:
                why = noted("until-compiles.unsearched", most=MOST)
                for node in (node for piece in failing for node in piece.nodes):
                    self._refuse(node, why)
            elif not [piece for piece in failing if self._named(piece)]:
                behind += filter(None, [self._located(failing[0])])
        profiles = [{} if one.isolated else self._engine(one).profiles for one in pieces]
        numbers = [{} if one.isolated else self._numbers(one.model.graph.input) for one in pieces]
        return Around(pieces, self._refused, profiles, numbers)

    def _refuse(self, node: str, why: str) -> bool:
        """Whether this node, or the one around it, is apart from now on."""
        holder = self._cutter.holder(node)
        if holder and holder not in self._refused:
            self._refused[holder] = NotTaken(holder, self._ops.get(holder, ""), why, "")
            return True
        return False

    def _named(self, piece: Piece) -> bool:
        """Whether the compiler named a node that it refuses."""
        engine, found = self._engine(piece), False
        for error in engine.errors:
            if self._cutter.holder(error.node) in piece.nodes:
                found = self._refuse(error.node, error.message) or found
        node = "" if engine.errors else self._cutter.holder(trt.node_of(engine.reason))
        if node in piece.nodes and not self._compiles(self._cutter.part([node])):
            found = self._refuse(node, _first(engine))
        return found

    def _located(self, piece: Piece) -> Sequence[str]:
        """Looks for the first node with which a piece fails; those before it, where it compiles alone."""
        works, fails = 0, len(piece.nodes)
        while fails - works > 1:
            middle = (works + fails) // 2
            if self._compiles(self._cutter.part(piece.nodes[:middle])):
                works = middle
            else:
                fails = middle
        alone = self._cutter.part([piece.nodes[works]])
        if works and self._compiles(alone):
            return piece.nodes[:works]
        self._refuse(piece.nodes[works], _first(self._engine(alone)))
        return ()

    def _compiles(self, piece: Piece) -> bool:
        return self._engine(piece).status == "compiled"

    def _engine(self, piece: Piece) -> trt.Engine:
        inputs = piece.model.graph.input
        for entry in inputs:
            profile = self._seen.profile(entry.name)
            if profile is not None and not entry.type.tensor_type.HasField("shape"):
                set_shape(entry.type.tensor_type, (None,) * len(profile[0]))
        key = piece.nodes, *(tuple(one.name for one in side) for side in (inputs, piece.model.graph.output))
        if key not in self._engines:
            with interrupts.Folder() as folder:
                path = Path(folder) / "piece.onnx"
                files.save_model(piece.model, path, self._model.data_dir)
                self._engines[key] = trt.compile_engine(
                    path, sm=self._sm, profiles=self._profiles(inputs), numbers=self._numbers(inputs),
                    timeout=_SECONDS,
                )  # fmt: skip
            self._tell(len(self._engines))
        return self._engines[key]

    def _numbers(self, inputs: Iterable[onnx.ValueInfoProto]) -> dict[str, Profile]:
        """The numbers in inputs that may decide sizes."""
        three = {one.name: self._seen.three_numbers(one.name) for one in inputs}
        return {name: numbers for name, numbers in three.items() if numbers is not None}

    def _profiles(self, inputs: Iterable[onnx.ValueInfoProto]) -> dict[str, Profile]:
        """The shapes of dynamic inputs, as they were in runs."""
        profiles = {}
        for entry in inputs:
            kind = entry.type.tensor_type
            shape = shape_of(kind.shape) if kind.HasField("shape") else None
            profile = self._seen.profile(entry.name)
            if profile is not None and shape is not None and not is_static(shape):
                profiles[entry.name] = profile
        return profiles


def _first(engine: trt.Engine) -> str:
    return trt.plain(engine.reason).splitlines()[0]


# -- how much of the work is in engines -----------------------------------------------------------

_MULTIPLIES = re.compile(r"Conv|Gemm|MatMul|Attention|LSTM|GRU|RNN")


def macs_of(node: Node) -> int | None:
    """Multiply-accumulates of a node for the typical input; of onnxruntime's own operators, too.

    Returns:
        None where they are not known: a size is not, or the node has bodies.
    """
    if any(macs_of(inner) != 0 for inner in node.with_bodies[1:]):
        return None  # how often they run is not known
    layer = layer_of(node, quantized=True)
    known = other_macs(node) if layer is None else layer.macs
    if known != 0 or not _MULTIPLIES.search(node.op):
        return known
    of_codes = node.op.startswith("QLinear")
    data, weight = (node.operands(4)[place] for place in ((0, 3) if of_codes else (0, 1)))
    shapes = [None if one is None else one.typical_shape for one in (data, weight, node.outputs[0])]
    if not all(map(is_static, shapes)):
        return None
    left, right, out = (np.array(shape, np.int64) for shape in shapes)
    if "Conv" in node.op:
        return int(out.prod() * right[1:].prod())
    if re.search("Gemm|MatMul", node.op):
        return int(out.prod() * left[-1])
    return None


def share_in_engines(model: Model, around: Around) -> tuple[list[int], float | None, list[str]]:
    """How much of a model's multiply-accumulates is in engines.

    Returns:
        Those of each piece, as far as they are known; the share in engines, None where there are none; and
        the nodes whose are not known.
    """
    counts = {node.name: macs_of(node) for node in model.nodes}
    unknown = [name for name, count in counts.items() if count is None]
    each = [sum(counts.get(name) or 0 for name in piece.nodes) for piece in around.pieces]
    total = math.fsum(each)
    inside = math.fsum(macs for macs, piece in zip(each, around.pieces, strict=True) if not piece.isolated)
    return each, inside / total if total else None, unknown
