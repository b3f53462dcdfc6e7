"""Which tensor of one stage is which of another: by name, by node, by what computes it.

A rule that replaces nodes keeps the names of what they give, so that most tensors have one name in all
stages. Pairs and casts are looked through: a value that is quantized is compared as it is in front of its
pair, and one that only a dequantized or cast tensor has the name of, as that. Other tools rename: there it is
the one that a node of the same name and operator gives, or the only one that an operator makes of the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import onnx

from onnxq.analysis.stages import THROUGH, Saved, Stage
from onnxq.base.grouped import grouped
from onnxq.base.reason import Reason, code_of, noted
from onnxq.documents.analysis import Unmatched


@dataclass(frozen=True, slots=True)
class Matched:
    """A tensor that both stages have.

    Attributes:
        a: its name in A.
        b: its name in B.
        how: `name` (or the report tells the other one's), `node` (the node that gives it has one name) or
            `structure` (it is made of the same by the same operator, and nothing else is).
    """

    a: str
    b: str
    how: str


@dataclass(frozen=True, slots=True)
class Matching:
    """What of two stages is the same.

    Attributes:
        pairs: the tensors of both, in the order of B.
        left_a: the tensors of A that B has not.
        left_b: the tensors of B that A has not.
    """

    pairs: tuple[Matched, ...]
    left_a: tuple[Unmatched, ...]
    left_b: tuple[Unmatched, ...]

    @property
    def share(self) -> float:
        """How many of the tensors of A are matched or known to be gone by a rule, 0 to 1."""
        gone = sum(code_of(entry.why) == _BY_RULE for entry in self.left_a)
        total = len(self.pairs) + len(self.left_a)
        return (len(self.pairs) + gone) / total if total else 1.0


_BY_RULE = "gone"


def match(
    a: Stage, b: Stage, removed: Mapping[str, str] | None = None, renamed: Mapping[str, str] | None = None
) -> Matching:
    """Matches the float tensors that nodes of the main graphs compute.

    Args:
        a: the reference.
        b: the other.
        removed: the rule that replaced a node of A, by its name.
        renamed: the tensor of A that one of B is, by its name in B, where that is known.
    """
    ours, theirs = _values(a), _values(b)
    matched: dict[str, Matched] = {}
    taken: set[str] = set()

    def take(one: str, other: str, how: str) -> None:
        matched[one] = Matched(one, other, how)
        taken.update((other, b.base(other)))

    for other, name in (renamed or {}).items():
        if name in ours and other in theirs and _fit(a, b, name, other):
            take(name, other, "name")
    named = [name for name in a.maker if name in b.maker and name not in a.fixed and name not in b.fixed]
    for name in named:
        floats = a.is_float(name) and b.is_float(name) and (name in ours or name in theirs)
        if floats and _fit(a, b, name, name) and a.base(name) not in matched:
            take(name, name, "name")
    for name, node in ours.items():
        twin = b.nodes.get(node.name)
        if name in matched or twin is None or twin.op_type != node.op_type:
            continue
        place = list(node.output).index(name)
        other = twin.output[place] if place < len(twin.output) else ""
        if other in theirs and other not in taken and _fit(a, b, name, other):
            take(name, other, "node")
    for name, other in _by_structure(a, b, ours, theirs, matched, taken):
        take(name, other, "structure")
    order = {name: place for place, name in enumerate(b.maker)}
    pairs = tuple(sorted(matched.values(), key=lambda entry: order[entry.b]))
    covered = {a.base(entry.a) for entry in pairs} | {entry.a for entry in pairs}
    left_a = [_left(a, name, node, b, removed or {}) for name, node in ours.items() if name not in covered]
    left_b = [_left(b, name, node, a, {}) for name, node in theirs.items() if name not in taken]
    return Matching(pairs, tuple(left_a), tuple(left_b))


def match_saved(a: Stage, saved: Saved) -> Matching:
    """Matches the tensors of a stage with what was saved under their names."""
    ours = _values(a)
    names = [
        name for name in a.maker if name in saved.outputs[0] and name not in a.fixed and a.is_float(name)
    ]
    covered = {a.base(name) for name in names} | set(names)
    left_a = tuple(
        Unmatched(name, node.name, a.operator(node), "not saved")
        for name, node in ours.items()
        if name not in covered
    )
    others = [name for name in saved.outputs[0] if name not in names]
    left_b = tuple(Unmatched(name, "", "", noted("unmatched.no-name")) for name in others)
    return Matching(tuple(Matched(name, name, "name") for name in names), left_a, left_b)


def _values(stage: Stage) -> dict[str, onnx.NodeProto]:
    """The float tensors that are computed of the inputs, and by what; not what is only quantized or cast."""
    values = {}
    for name, node in stage.maker.items():
        if name in stage.fixed or (node.op_type in THROUGH and not node.domain) or not stage.is_float(name):
            continue
        if name in stage.readers or name in stage.outputs:
            values[name] = node
    return values


def _fit(a: Stage, b: Stage, one: str, other: str) -> bool:
    """Whether the shapes of two tensors may be one."""
    left, right = a.shape(one), b.shape(other)
    if left is None or right is None:
        return True
    if len(left) != len(right):
        return False
    sizes = zip(left, right, strict=True)
    return all(not (isinstance(m, int) and isinstance(n, int)) or m == n for m, n in sizes)


def _by_structure(
    a: Stage,
    b: Stage,
    ours: Mapping[str, onnx.NodeProto],
    theirs: Mapping[str, onnx.NodeProto],
    matched: Mapping[str, Matched],
    taken: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Tensors that one operator makes of what is matched already, where there is one of them on each side."""
    partner = {a.base(name): b.base(entry.b) for name, entry in matched.items()}
    partner |= {name: name for name in a.inputs if name in b.inputs}
    sides = grouped(
        (_signature(b, node, None), name)
        for name, node in theirs.items()
        if name not in taken and node.output[0] == name
    )
    left = [name for name, node in ours.items() if name not in matched and node.output[0] == name]
    rivals = Counter(_signature(a, ours[name], None) for name in left)
    for name in left:  # in order, so that what is matched here leads on
        others = sides.get(_signature(a, ours[name], partner), [])
        if len(others) == 1 and rivals[_signature(a, ours[name], None)] == 1 and _fit(a, b, name, others[0]):
            partner[name] = others[0]
            yield name, others[0]


def _signature(stage: Stage, node: onnx.NodeProto, names: Mapping[str, str] | None) -> tuple[object, ...]:
    """A node's operator and what it reads, in the names of B; constants by their place only."""
    read: list[str | None] = []
    for place, name in enumerate(node.input):
        if name in stage.fixed:
            if place < 2 or name:
                read.append(None)
            continue
        base = stage.base(name)
        read.append(base if names is None else names.get(base, f"\0{base}"))
    while read and read[-1] is None and len(read) > 1:
        read.pop()  # a bias that is there on one side only
    return (node.domain, node.op_type, *read)


def _left(
    stage: Stage, name: str, node: onnx.NodeProto, other: Stage, removed: Mapping[str, str]
) -> Unmatched:
    op = stage.operator(node)
    rule = removed.get(node.name) or next(
        (removed[user.name] for user in stage.readers.get(name, ()) if user.name in removed), None
    )
    if rule is not None:
        why: str = Reason(_BY_RULE, f"gone: {rule}")
    elif name in other.maker and name in other.fixed:
        why = "a constant there"
    elif name in other.maker and not other.is_float(name):
        why = noted("unmatched.no-float")
    elif name in other.maker:
        why = "another shape there"
    elif node.name in other.nodes:
        why = noted("unmatched.other-tensor")
    else:
        why = noted("unmatched.not-made")
    return Unmatched(name, node.name, op, why)
