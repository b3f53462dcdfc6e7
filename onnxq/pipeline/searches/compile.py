"""Compiling the result; where it fails, the cheapest change with which NVIDIA's compiler takes it.

What can be taken back are nodes of the body, which are float32 then, and int8 layers, which are in float.
Tried is what the compiler's words name; the body alone; the layers alone; where neither does, both. It is
bisection in the order of the graph. Of the sets with which it compiles that one is kept whose engine moves
fewest bytes.
"""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnxq.advice.worth import worth_of
from onnxq.base.errors import Fault, UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.compiled.verdict import Verdict
from onnxq.documents.engine import Regressed
from onnxq.graph.model import Model
from onnxq.graph.view import Node, every_node
from onnxq.pipeline.building import Built
from onnxq.pipeline.compiler import Compiled, Engines
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.searches.body import decided_again
from onnxq.pipeline.verdict import form_of
from onnxq.run import trt

KEPT_TO_COMPILE = reason("does-not-compile", "tensorrt")

_COMPILATIONS = 24
"""How many models are compiled to find the nodes of the body, at most; as many to find the layers."""

_SEARCH_SECONDS = 180.0
"""How long either may take."""

_NAMED = 8
"""How many nodes are taken back as the compiler names them, one after another."""

_READERS = 4
"""So far what reads two nodes has to be of the same operators for them to be alike, as in blocks of a net."""

_LONGEST = 900.0  # seconds of one compilation
_TOLD = 3  # nodes that a note names


def _compiled(run: Run) -> Run:
    """Compiles the result; leaves in float32, or in float, what it does not compile with."""
    wanted, built = run.request.compilation, run.built
    title = built.job.target.title
    if not built.job.target.explicit:
        return _not_run(run, reason("cache-target", target=title))
    if not wanted.compile:
        return _not_run(run, "not asked for")
    with built.job.step("compile"):
        if trt.installed() is None:
            engine = trt.compile_engine(Path(), sm=wanted.sm(run.request.job.target))
            verdict = Verdict(engine.reason, form_of(built.job.target))
            return replace(run, compiled=Compiled(engine, verdict))
        try:
            engines = Engines(wanted, run.sampling.deployments, built)
            first = _Tried(built, engines.compiler.compile(built.written.proto))
            kept, regressed = first, None
            if not first.compiles:
                kept, regressed = _mended(engines, first, run)
        except (UserError, Fault) as error:  # profiles do not fit, or the compiler is not understood
            return _not_run(run, str(error))
        verdict = kept.verdict or engines.compared(kept.engine, kept.built)
        compiled = Compiled(kept.engine, verdict, regressed=regressed, engines=engines)
    return replace(run if kept is first else run.of(kept.built), compiled=compiled)


def _not_run(run: Run, why: str) -> Run:
    verdict = Verdict(f"nothing was compiled: {why}", form_of(run.built.job.target))
    return replace(run, compiled=Compiled(None, verdict, why))


@dataclass(frozen=True, slots=True)
class _Back:
    """What is taken back: a node of the body, or an int8 layer."""

    node: str
    is_layer: bool


@dataclass(frozen=True, slots=True)
class _Tried:
    """A model that was compiled, with what was taken back of it; `is_cut`: fewer might have done."""

    built: Built
    engine: trt.Engine
    back: tuple[_Back, ...] = ()
    verdict: Verdict | None = None
    is_cut: bool = False

    @property
    def compiles(self) -> bool:
        return self.engine.status == "compiled"

    def nodes(self, *, layers: bool) -> list[str]:
        """The names of what was taken back: of layers, or of nodes of the body."""
        return [one.node for one in self.back if one.is_layer == layers]


def _mended(engines: Engines, first: _Tried, run: Run) -> tuple[_Tried, Regressed | None]:
    """What is kept of a run's model that does not compile, and by what it fails where the original does not.

    Raises:
        UserError: a profile does not fit what the compiler makes of the inputs.
    """
    trials, says = _Trials(engines, first), first.engine.reason
    found = trials.found()
    if not found:
        named = next((one.node for one in trials.named_in(first.engine, trials.layers)), "")
        return first, Regressed(says, "repair", named) if trials.original_compiles and says else None
    kept = _cheapest(engines, found)
    layers = kept.nodes(layers=True)
    if layers:
        made = decided_again(kept.built, run.stats, run.sampling)
        if made.draft.body.decision is not kept.built.draft.body.decision:
            again = _Tried(made, engines.compiler.compile(made.written.proto), kept.back)
            kept = again if again.compiles else kept
    return trials.told(kept), Regressed(says, "quantization", layers[0]) if layers and says else None


def _cheapest(engines: Engines, found: Sequence[_Tried]) -> _Tried:
    """The one whose engine moves fewest bytes; the first where that is not known."""
    if not found[1:]:
        return found[0]
    judged = [replace(one, verdict=engines.compared(one.engine, one.built)) for one in found]
    worths = [worth_of(one.verdict) for one in judged]
    moved = [math.inf if worth is None else worth.ratio for worth in worths]
    return judged[moved.index(min(moved))]


class _Trials:
    """A model that does not compile, with some of it taken back."""

    def __init__(self, engines: Engines, first: _Tried) -> None:
        self._engines, self._first, self._built = engines, first, first.built
        self._why = trt.plain(first.engine.reason)
        written, readers = self._built.written, self._built.draft.plan.readers
        halved = written.body.halved if written.body is not None else ()
        names = [node.name for node in every_node(written.model)]
        self._body = [_Back(name, False) for name in names if name in halved]
        self.layers = [_Back(name, True) for name in names if name in readers]
        self._forms = _forms(self._built.floats.model)
        self._made: list[trt.Engine] = []

    def found(self) -> list[_Tried]:
        """Models that compile, those first that keep most in int8; none where nothing does."""
        named = self._named(self._body)
        found = [] if named is None else [named]
        if self._body and not found and (whole := self._whole()).compiles:
            found = [self._fewest(self._body, whole), whole]
        if not self.layers or (self._built.job.limit.is_over if found else not self.original_compiles):
            return found
        both = [[*self._body, *self.layers]] if self._body and not found else []
        for order in (self.layers, *both):
            everything = self._without(order)
            if everything.compiles:
                return [*found, self._named(order) or self._fewest(order, everything)]
        return found

    @functools.cached_property
    def original_compiles(self) -> bool:
        """Whether the model does that the user gave."""
        return self._engines.compiler.original_compiles()

    def told(self, kept: _Tried) -> _Tried:
        """With a note on what of the body is float32, and on whether the search was cut."""
        names, body = kept.nodes(layers=False), kept.built.draft.body
        notes = [noted("compile-cut", count=len(self._made))] * kept.is_cut
        if names:
            more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
            shown = ", ".join(map(repr, names[:_TOLD])) + more
            notes.insert(0, noted("body-not-taken.nodes", nodes=shown, dtype=body.kind, why=self._why))
        return replace(kept, built=kept.built.with_body(body.noting(*notes)))

    def _without(self, back: Sequence[_Back], end: float = math.inf) -> _Tried:
        """The model with some of it taken back; `end`: until when it may take, as `time.monotonic` says."""
        why = Reason("compiler", self._why.split("\n")[0], "tensorrt")
        built = self._built.in_float({one.node: KEPT_TO_COMPILE for one in back if one.is_layer})
        body = built.draft.body.leaving({one.node: why for one in back if not one.is_layer})
        return self._compiled(built.with_body(body), back, end)

    def _whole(self) -> _Tried:
        """The model with a float32 body."""
        body = self._built.draft.body
        note = noted("body-not-taken", dtype=body.kind, why=self._why)
        return self._compiled(self._built.with_body(replace(body, decision=None).noting(note)))

    def _compiled(self, built: Built, back: Sequence[_Back] = (), end: float = math.inf) -> _Tried:
        built, seconds = built.finished(), min(max(end - time.monotonic(), 1.0), _LONGEST)
        engine = self._engines.compiler.compile(built.written.proto, seconds)
        self._made.append(engine)
        return _Tried(built, engine, tuple(back))

    def named_in(self, engine: trt.Engine, of: Sequence[_Back]) -> list[_Back]:
        """Those of the nodes that the compiler's words name, the longest name first."""
        known, text = {one.node: one for one in of}, engine.reason
        said = [*(error.node for error in engine.errors), trt.node_of(text)]
        written = [name for name in known if re.search(rf"(?<![\w./]){re.escape(name)}(?![\w./])", text)]
        names = dict.fromkeys([*said, *sorted(written, key=len, reverse=True)])
        return [known[name] for name in names if name in known]

    def _named(self, of: Sequence[_Back]) -> _Tried | None:
        """With what the compiler's words name, one after another; None where that does not do."""
        back, engine = list[_Back](), self._first.engine
        while len(back) < _NAMED:
            one = next((one for one in self.named_in(engine, of) if one not in back), None)
            if one is None:
                break
            back.append(one)
            for some in self._grown(back, of):
                tried = self._without(some)
                if tried.compiles:
                    return tried
                engine = tried.engine if some is back else engine
        return None

    def _grown(self, back: list[_Back], of: Sequence[_Back]) -> Iterator[list[_Back]]:
        """What is taken back, and then all that is alike, too: blocks of a net fail alike."""
        yield back
        forms = {self._forms.get(one.node, one.node) for one in back}
        more = [one for one in of if self._forms.get(one.node, one.node) in forms]
        if len(back) < len(more) < len(of):
            yield more

    def _fewest(self, order: Sequence[_Back], kept: _Tried) -> _Tried:
        """The model with as few of them taken back as do; more where compilations run out.

        Args:
            order: what can be taken back.
            kept: the model with all of it taken back, which compiles.
        """
        end = time.monotonic() + min(_SEARCH_SECONDS, self._built.job.limit.left)
        most = len(self._made) + _COMPILATIONS

        def is_over() -> bool:
            return len(self._made) >= most or time.monotonic() > end

        back, rest = list[_Back](), list(order)
        while rest:
            low, high = 0, len(rest)  # from the one on all is taken back and it compiles, from the other not
            while high - low > 1 and not is_over():
                middle = (low + high) // 2
                tried = self._without([*back, *rest[middle:]], end)
                low, high, kept = (middle, high, tried) if tried.compiles else (low, middle, kept)
            if is_over():
                return replace(kept, is_cut=True)
            one, rest = rest[low], rest[high:]
            for last in (*self._movers(back, one, rest), *([one] if rest else [])):
                for some in self._grown([*back, last], order):
                    tried = self._without(some, end)
                    if tried.compiles:
                        return tried
            back.append(one)
        return kept

    def _movers(self, back: Sequence[_Back], one: _Back, rest: Sequence[_Back]) -> list[_Back]:
        """What moves values to a layer alone, which is quantized with it, in front of it."""
        if not one.is_layer:
            return []
        idle = self._readers([*back, *rest]) - self._readers([*back, one, *rest])
        return [mover for mover in self.layers[: self.layers.index(one)] if mover.node in idle]

    def _readers(self, back: Sequence[_Back]) -> frozenset[str]:
        """The nodes that read pairs with layers in float."""
        why = {one.node: KEPT_TO_COMPILE for one in back if one.is_layer}
        return self._built.draft.in_float(why, self._built.floats.model).plan.readers


def _forms(model: Model) -> dict[str, int]:
    """A number for each node, the same for those alike: in operator and sizes, and so what reads them."""
    numbers: dict[Hashable, int] = {}

    def number(*key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    def sizes(node: Node) -> Hashable:
        weights = [tensor.shape for tensor in node.inputs if tensor is not None and tensor.is_constant]
        return node.domain, node.op, (*weights, *(tensor.typical_shape for tensor in node.outputs))

    forms = {node: number(sizes(node)) for node in every_node(model)}
    for _ in range(_READERS):
        read = {
            node: sorted((user.inputs.index(out), forms[user]) for out in node.outputs for user in out.users)
            for node in forms
        }
        forms = {node: number(form, *read[node]) for node, form in forms.items()}
    return {node.name: form for node, form in forms.items()}


COMPILE = ModelSearch(
    "compile", lambda run: run.compiled is None, _compiled,
    lambda run, why: _not_run(run, str(why)), needed=True,
)  # fmt: skip
