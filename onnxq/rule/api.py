"""What a rule is: a pure function with its documentation, its stage and its examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import onnx

from onnxq.base.reason import Reason, reason
from onnxq.graph.view import Node, Tensor, Value

Replacing = Literal["clean", "compat", "fuse"]
REPLACING: tuple[Replacing, ...] = ("clean", "compat", "fuse")
"""The stages of rules that replace nodes, in order."""

Stage = Replacing | Literal["place"]
STAGES: tuple[Stage, ...] = (*REPLACING, "place")

ANY = "*"
"""The root of a rule that looks at every node."""


STATED = reason("stated", "user")
"""Why a size is assumed that the user states (`Assuming`)."""


But = Literal["nan", "nan-input", "infinite-input", "extreme-input", "empty-input", "zero-sign", "random"]
"""Of what an `Except` says nothing."""


class Skip(Exception):
    """The pattern is there, but a guard fails; the message says why (the user sees it)."""


@dataclass(frozen=True, slots=True)
class Close:
    """A replacement that reorders float sums, so that it is close, not bit-equal.

    How close it must be is measured: it may be little further from what double precision gives than the
    original is. What else an author says of the sum decides nothing.

    Attributes:
        results: the replacement.
        terms: the number of terms of each sum, for a reader.
        sizes: how large the channels' sums are, for a reader.
        axis: the channel axis of the outputs, for a reader.
    """

    results: Any
    terms: int = 0
    sizes: np.ndarray | None = None
    axis: int = 1


@dataclass(frozen=True, slots=True)
class Except:
    """A replacement that is equal but for something of which nobody takes notice.

    Attributes:
        results: the replacement; it may be a `Close` one.
        but: `nan`: where the original is NaN it may be anything; `nan-input`: for an input that holds a NaN
            it may be anything everywhere; `infinite-input`: for one that holds a NaN or an infinity;
            `extreme-input`: for one that holds a number whose square overflows, too; `empty-input`: where a
            dynamic dimension is of size 0 it may fail; `zero-sign`: a zero may have another sign; `random`:
            the values are other ones each time, only their type and shape are compared.
        why: why that does no harm; the user reads it.
    """

    results: Any
    but: But
    why: str

    def __post_init__(self) -> None:
        if self.but not in get_args(But):
            names = ", ".join(map(repr, get_args(But)))
            raise ValueError(f"Except knows {names}, not {self.but!r}")
        if not self.why:
            raise ValueError("Except needs a why, which the user reads")


@dataclass(frozen=True, slots=True)
class Within:
    """A replacement whose integers may be a few steps off.

    Attributes:
        results: the replacement.
        steps: how many at most.
        why: why that does no harm; the user reads it.
    """

    results: Any
    steps: int
    why: str

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.why:
            raise ValueError("Within needs at least one step, and a why, which the user reads")


@dataclass(frozen=True, slots=True)
class Assuming:
    """A replacement that is right only where a dynamic dimension has a size.

    Attributes:
        results: the replacement.
        dim: the dimension's symbol.
        size: its size.
        why: `STATED` where the user's flag says so, else what in the model proves it.
    """

    results: Any
    dim: str
    size: int
    why: Reason | str


@dataclass(frozen=True, slots=True)
class Interface:
    """Another type or shape for an input or output of the model, where the user's flag allows it.

    Proved is that nothing is lost: `restore(convert(tensor))` is the tensor, bit for bit.

    Attributes:
        tensor: the input or the output.
        convert: makes the new one's values of the old one's.
        restore: makes the old one's values of the new one's.
        because: why.
    """

    tensor: Tensor
    convert: Callable[[Value], Value]
    restore: Callable[[Value], Value]
    because: str


@dataclass(frozen=True, slots=True)
class Quantize:
    """Asks for a Q/DQ pair on an input of a node.

    Attributes:
        node: the reader.
        input: which input.
        axis: the channel axis of a constant that has one scale a channel; None for one scale for the tensor,
            which is what all that is computed has.
        because: why.
        beside: another node; the wish holds only where that one is quantized.
    """

    node: Node
    input: int
    axis: int | None = None
    because: str = ""
    beside: Node | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """Input `input` of a node takes the format and the scale of its output where that is quantized.

    For what only moves or selects values: it commutes with quantization, so that it runs in int8
    whichever side the pair is on.
    """

    node: Node
    input: int
    because: str


@dataclass(frozen=True, slots=True)
class Read:
    """Input `input` of a node reads the quantized tensor where somebody else quantizes it anyway."""

    node: Node
    input: int
    because: str


@dataclass(frozen=True, slots=True)
class Float:
    """A veto: the node stays in float."""

    node: Node
    because: str


@dataclass(frozen=True, slots=True)
class Together:
    """A joint decision: all of these nodes are quantized, or none.

    It is taken when all vetoes are known: where one of them stays in float, by any rule or by the
    user, or nothing asks to quantize it, the others stay in float too, whoever asks.

    Attributes:
        nodes: the nodes; somebody has to ask with `Quantize` for each of them.
        because: why.
        tried: whether samples decide, too: all are float where int8 costs the outputs too much.
    """

    nodes: Sequence[Node]
    because: str
    tried: bool = False

    def __post_init__(self) -> None:
        """Takes any iterable, once."""
        object.__setattr__(self, "nodes", tuple(self.nodes))


Fact = Quantize | Follow | Read | Float | Together


@dataclass(frozen=True, slots=True)
class Fires:
    """An example in which the rule fires.

    Attributes:
        model: ONNX text (`onnx.parser`), or a function that makes a ModelProto.
        gone: an operator that must not be left.
        assume: sizes of dynamic dimensions that the user states.
        after: other rules that run with it.
        limits: limits of a made-up target, as in `Node.limit`, so that an example can be small.
        plan: of a placement rule, the plan that is expected of the model, in any order, `;` or a new line
            between: `x -> add:1, conv:0` (a pair on `x`, read by these inputs of these nodes, sorted),
            `w axis 0 -> conv:1` (with a scale a channel), `own x -> conv:0` (the model's own pair),
            `one scale: a, b`, `together: m, n`.
        becomes: of another rule, the nodes that are expected to be there afterwards, `;` or a new line
            between: `a = Sub (x, {1.0, 2.0}); y = Mul <axis = 1> (a, 3)`. New names are _1, _2, ..., and a
            number with a point is float32, one without int64. "" where the example does not say.
    """

    model: str | Callable[[], onnx.ModelProto]
    gone: str | None = None
    assume: Mapping[str, int] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    plan: str = ""
    becomes: str = ""


@dataclass(frozen=True, slots=True)
class Skips:
    """An example that the rule leaves alone.

    Attributes:
        model: as in `Fires`.
        because: a part of the reason that it gives; "" where it is not the pattern at all.
        limits: as in `Fires`.
        after: as in `Fires`.
        nodes: the names of nodes of which each has this reason; where none is named, any node may have it.
    """

    model: str | Callable[[], onnx.ModelProto]
    because: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


Example = Fires | Skips


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is loaded.

    Attributes:
        id: its name, the function's.
        function: `Node -> Value | dict[int, Value] | Close | Assuming | None`, or for placement
            `Node -> list of facts`.
        roots: the operators it looks at, as in `rule`.
        stage: when it runs.
        lacks: the feature or operator that the target must lack for it to fire; None for always.
        default: whether it is on without `enable`.
        aliases: former names.
        doc: the text of its file.
        examples: what it does and what it leaves alone.
        path: its file.
    """

    id: str
    function: Callable[[Node], Any]
    roots: tuple[str, ...]
    stage: Stage
    lacks: str | None = None
    default: bool = True
    aliases: tuple[str, ...] = ()
    doc: str = ""
    examples: Sequence[Example] = ()
    path: str = ""

    def __call__(self, node: Node) -> Any:
        answer = self.function(node)
        return _facts(answer) if self.stage == "place" else answer

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.doc.strip().splitlines()[0] if self.doc.strip() else ""


def rule(
    *roots: str,
    stage: Literal["clean", "compat", "fuse"],
    lacks: str | None = None,
    default: bool = True,
    aliases: tuple[str, ...] = (),
) -> Callable[[Callable[[Node], Any]], Rule]:
    """Makes a function the rule of its file.

    Args:
        roots: the operators whose nodes it is asked about; one that is not ONNX's own with its domain,
            as in `com.microsoft.FusedConv`; "*" for all.
        stage: `clean` (what every model wants), `compat` (what a target lacks), `fuse`.
        lacks: fire only for targets that lack this.
        default: False for a rule that only `enable` turns on.
        aliases: former names, so that a rename breaks no user's flags.
    """

    def decorate(function: Callable[[Node], Any]) -> Rule:
        _check_signature(function)
        return Rule(function.__name__, function, roots, stage, lacks, default, aliases)

    return decorate


def place(*roots: str, default: bool = True) -> Callable[[Callable[[Node], Any]], Rule]:
    """Makes a function the placement rule of its file: `Node -> list[Quantize | Follow | ...]`."""

    def decorate(function: Callable[[Node], Any]) -> Rule:
        _check_signature(function)
        return Rule(function.__name__, function, roots, "place", None, default)

    return decorate


def _check_signature(function: Callable[[Node], Any]) -> None:
    if len(inspect.signature(function).parameters) != 1:
        raise TypeError(f"rule {function.__name__} must take one node")


def _facts(answer: Any) -> list[Fact]:
    """What a placement rule said of a node, as a list.

    Raises:
        TypeError: it is no list of facts.
        ValueError: a fact is about an input, or an axis of it, that the node does not have.
    """
    if answer is None:
        return []
    if not isinstance(answer, list | tuple):
        raise TypeError(f"a placement rule returns a list of facts, not {type(answer).__name__}")
    for fact in answer:
        if not isinstance(fact, get_args(Fact)):
            kinds = ", ".join(kind.__name__ for kind in get_args(Fact))
            raise TypeError(f"{type(fact).__name__} is no fact; facts are {kinds}")
        index = getattr(fact, "input", None)
        if index is None:
            continue
        node = fact.node
        if type(index) is not int or not 0 <= index < len(node.inputs):
            count = len(node.inputs)
            raise ValueError(f"{node.op} {node.name!r} has no input {index!r}, it has {count}, from 0")
        tensor, axis = node.inputs[index], getattr(fact, "axis", None)
        rank = None if tensor is None else tensor.rank
        if axis is not None and rank is not None and not -rank <= axis < rank:
            raise ValueError(f"input {index} of {node.op} {node.name!r} has {rank} axes, not {axis}")
        if axis is not None and tensor is not None and not _is_of_constants(tensor):
            raise ValueError(
                f"input {index} of {node.op} {node.name!r} is computed: it has one scale and no axis; "
                "a scale a channel is for constants"
            )
    return list(answer)


def _is_of_constants(tensor: Tensor) -> bool:
    """Whether a tensor is a constant, or a dequantized or rearranged one."""
    first: Tensor | None = tensor
    while first is not None and (maker := first.producer) is not None:
        first = next(iter(maker.inputs), None)
    return first is None or first.is_constant


def operands(node: Node, count: int) -> tuple[Tensor | None, ...]:
    """The first `count` inputs of a node; None for those that are missing or left out."""
    return node.operands(count)


def required(node: Node, count: int) -> tuple[Tensor, ...]:
    """The first `count` inputs of a node, which its operator cannot do without.

    Raises:
        Skip: one is missing or left out.
    """
    operands = tuple(tensor for tensor in node.operands(count) if tensor is not None)
    if len(operands) < count:
        raise Skip(f"{node.op} needs {count} inputs")
    return operands


def made_by(value: Value | None, *operators: str) -> Node | None:
    """The node that writes a value, where it is one of these operators of ONNX's own; else None."""
    node = None if value is None else value.producer
    return None if node is None or node.domain or node.op not in operators else node


def constant(value: Value | None) -> np.ndarray | None:
    """The values of a constant, None for anything else."""
    return None if value is None else value.constant
