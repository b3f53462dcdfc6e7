"""What the target, onnxruntime and NVIDIA's compiler do not take, and what the engine runs in float."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from onnxq.checks import Fact, Seen, Subject, check, stated
from onnxq.checks.answers import RuntimeAnswer, TargetAnswer
from onnxq.checks.api import AT_NODE, UNTIL_COMPILES
from onnxq.formats import INT8
from onnxq.graph.baked import baked_sizes
from onnxq.graph.batching import can_be_dynamic
from onnxq.graph.features import needs
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.types import shape_text
from onnxq.rewrite.changes import Change
from onnxq.rewrite.whole import WholeModel
from onnxq.run import ort
from onnxq.run.size_steps import size_steps
from onnxq.run.trt import Engine, node_of, plain
from onnxq.targets import load_target


@check(
    "unsupported", needs="target", severity="error",
    command=UNTIL_COMPILES,
)  # fmt: skip
def unsupported(answer: TargetAnswer) -> Iterator[Fact]:
    """Each node once, with the advice of the rule that knows it."""
    stays = {entry.node for entry in answer.report.unsupported}
    advice = {repair.entry.node: repair.advice for repair in answer.repairs}
    for entry in answer.refused:
        removed = entry.node not in stays and entry.node not in advice
        yield Fact(
            "unsupported.removed" if removed else "unsupported", (entry.node, entry.op),
            {"reason": entry.reason, "advice": advice.get(entry.node, entry.advice)},
        )  # fmt: skip


NEAR_MISS = stated("near-miss", needs="target", severity="error")
_HARMLESS = "one-element-scales"
"""The target takes them without harm, as the checks of pairs know."""
_BY_SIZES = ("attention-forms", "loop-forms", "tensor-scatter-forms")
"""Sizes decide, too, whether the target takes them: where the compiler does, the table is not believed."""


@check("repairable", needs="target", severity="error")
def repairable(answer: TargetAnswer) -> Iterator[Fact]:
    """What `unsupported` does not say already."""
    refused = {entry.node for entry in answer.refused}
    for repair in answer.repairs:
        if repair.entry.node in refused:
            continue
        row = "repairable" if isinstance(repair.entry, Change) else "near-miss"
        values = {"reason": repair.reason, "advice": repair.advice}
        if answer.compiled and repair.rule.lacks in _BY_SIZES:
            row, values["severity"] = "repairable.taken", "note"
        if repair.rule.lacks == _HARMLESS:
            values["severity"] = "note"
        op = "" if repair.node is None else repair.node.op
        yield Fact(row, (repair.entry.node, op), values)


@check("plugin", needs="target", severity="note")
def plugins(answer: TargetAnswer) -> Iterator[Fact]:
    """What onnxruntime and TensorRT-RTX do not have."""
    for entry in answer.plugins:
        yield Fact("plugin", (entry.node, entry.op), {"reason": entry.reason, "advice": entry.advice})


@check(
    "later-release", needs="file", severity="note",
    kind="release",
)  # fmt: skip
def later_release(subject: Subject) -> Iterator[Fact]:
    """Each node with such a feature; earlier releases reject it as those that lack it."""
    target = load_target(subject.target)
    for node in subject.nodes if target.since else ():
        for feature, has in needs(node).items():
            if feature in target.since and feature not in target.lacks:
                yield Fact(
                    "later-release", (node.name, node.op),
                    {"target": target.title, "has": has, "release": target.since[feature]},
                )  # fmt: skip


@check("baked-size", needs="file", kind="shape")
def baked_size(subject: Subject) -> Iterator[Fact]:
    """Of each such dimension the first node that runs at one size of it alone."""
    for baked in baked_sizes(subject.model):
        is_batch = can_be_dynamic(subject.model, baked.symbol, baked.size, ort.evaluate)
        yield Fact(
            "baked-size.batch" if is_batch else "baked-size", (baked.node.name, baked.node.op),
            {
                "reason": str(baked), "symbol": baked.symbol,
                "assumed": shlex.quote(f"{baked.symbol}={baked.size}"),
            },
        )  # fmt: skip


@check("size-step", needs="file", kind="shape", severity="note")
def size_step(subject: Subject) -> Iterator[Fact]:
    """Of each dimension, the batch left out, that runs at multiples alone the node that fails at others."""
    model = subject.model
    dims = {one.name: one.shape for one in model.inputs if one.shape is not None}
    firsts = [str(shape[0]) for shape in dims.values() if shape]
    is_open = any(
        not isinstance(dim, int) and str(dim) not in firsts for shape in dims.values() for dim in shape
    )
    fed = WholeModel(model).made_up(1) if is_open and weight_bytes(model.source) < LARGE else []
    for feeds in fed:
        session = ort.load(model.source, optimize=False, data_dir=model.data_dir)
        for one in size_steps(session, feeds, dims, firsts):
            values = {"symbol": one.dimension, "step": one.step, "size": one.size}
            yield Fact("size-step", (one.node, one.op), values)


@check(
    "runtime", needs="runtime",
    command=AT_NODE,
)  # fmt: skip
def runtime(answer: RuntimeAnswer) -> Iterator[Fact]:
    """That it does not, and whether it takes the repair."""
    if answer.taken.original is None:
        return
    mended = answer.taken.result is None
    yield Fact("runtime.mended" if mended else "runtime", values={"message": answer.taken.original})


COMPILER = stated("compiler", needs="runtime", severity="error", command=UNTIL_COMPILES)
SIZES = stated(
    "unstated-sizes", needs="runtime",
    severity="note",
)  # fmt: skip
_OF_SIZES = re.compile(
    r"cannot be negative|must be (positive|conformable)|violates? shape|incompatible dimensions|"
    r"(exceed|larger than|out of).{0,40}dimension|cannot broadcast|volume",
    re.IGNORECASE,
)
"""Words by which the builder may mean the sizes, and not the model."""
_OF_TYPES = re.compile(r"\bhas (data ?)?type\b|unsupported data ?type", re.IGNORECASE)
"""Words by which it means types, which no size mends."""


@check("parser", needs="runtime", severity="error", command=UNTIL_COMPILES)
def parser(answer: RuntimeAnswer) -> Iterator[Fact]:
    """What they say of the model, and what else of its repair."""
    if answer.engines is None:
        return
    before, after = answer.engines
    found = _found(before, answer, _to_do(answer, before, after))
    if after is not before:
        known = {_unnamed(one) for one in found}
        new = _found(after, answer, ".after.skip" if before.status == "compiled" else ".after")
        found += [one for one in new if _unnamed(one) not in known]
    yield from (one for one in found if not _is_beyond(one, answer))


def _unnamed(one: Fact) -> tuple[str, ...]:
    """What is said of a node, whether the file or the parser gave it its name."""
    return one.row, *(str(value).replace("node_of_", "") for value in one.values.values())


def _found(engine: Engine, answer: RuntimeAnswer, form: str) -> list[Fact]:
    """What is said of an engine that was not built."""
    if engine.status != "failed":
        return []
    if engine.errors:
        return [Fact(f"parser{form}", (one.node, one.op), {"message": one.message}) for one in engine.errors]
    node = node_of(engine.reason)
    at = (node, answer.nodes[node].op) if node in answer.nodes else ("", "")
    sizes = [f"{name} {shape_text(tuple(usual))}" for name, (_, usual, _) in engine.profiles.items()]
    message = plain(engine.reason)
    values = {"message": message, "deciding": "; ".join(answer.deciding)}
    made_up = answer.sizes_made_up and sizes
    if made_up and _OF_SIZES.search(message):
        return [Fact(f"unstated-sizes{form}", at, {**values, "sizes": ", ".join(sizes)})]
    if made_up and not form and not _OF_TYPES.search(engine.reason):
        form = ".unstated"
    return [Fact(f"compiler{form}", at, values)]


def _to_do(answer: RuntimeAnswer, before: Engine, after: Engine) -> str:
    """The form that says what to do about the model, as it is."""
    if after.status == "compiled":
        return ".repairable"
    if before.errors or not answer.deciding or _OF_TYPES.search(before.reason):
        return ""
    return ".deciding"


def _is_beyond(one: Fact, answer: RuntimeAnswer) -> bool:
    """Whether it is, or may be, about a node that only the compiler that is here does not take."""
    node, op = one.about
    if node:
        return node in answer.beyond
    return op in answer.beyond.values() if op else bool(answer.beyond)


@check("not-int8", needs="engine", kind="qdq")
def not_int8(seen: Seen) -> Iterator[Fact]:
    """Products whose pairs ask for int8, which run in float, and nothing in the file says why."""
    for product in seen.products.values():
        pairs = (*product.of_data, *product.of_weight)
        if not product.is_int8 or seen.told & {product.node.name, *(pair.node.name for pair in pairs)}:
            continue
        precision = seen.precision(product.node.name)
        if precision not in (None, INT8.name):
            yield Fact(
                "not-int8", (product.node.name, product.node.op, product.data.name),
                {"precision": precision, "confirmed": True},
            )  # fmt: skip
