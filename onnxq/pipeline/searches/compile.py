"""Compiling the result, and finding out what is to blame where it does not compile and the original does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from onnxq.base.errors import Fault, UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.compiled.verdict import Verdict
from onnxq.documents.engine import Regressed
from onnxq.pipeline.building import Built
from onnxq.pipeline.compiler import Compiled, Compiler, Engines
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.searches.body import decided_again
from onnxq.pipeline.verdict import form_of
from onnxq.run import trt

KEPT_TO_COMPILE = reason("does-not-compile", "tensorrt")

# How long to look for the layer to blame: each trial compiles.
_SEARCH_SECONDS = 180.0

_REFUSALS = 8
"""How many nodes of a half body the compiler may refuse before the body is float32."""


def _compiled(run: Run) -> Run:
    """Compiles the result; leaves in float32, or in float, what it does not compile with."""
    wanted, built = run.request.compilation, run.built

    def written(of: Built) -> Built:
        return decided_again(of, run.stats, run.sampling)

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
            kept, engine = _as_it_compiles(engines.compiler, built)
            regressed = None
            if engine.status == "failed":
                kept, engine, regressed = _blamed(engines.compiler, engine, kept, written)
        except (UserError, Fault) as error:  # profiles do not fit, or the compiler is not understood
            return _not_run(run, str(error))
        compiled = Compiled(engine, engines.compared(engine, kept), regressed=regressed, engines=engines)
    return replace(run if kept is built else run.of(kept), compiled=compiled)


def _not_run(run: Run, why: str) -> Run:
    verdict = Verdict(f"nothing was compiled: {why}", form_of(run.built.job.target))
    return replace(run, compiled=Compiled(None, verdict, why))


def _as_it_compiles(compiler: Compiler, built: Built) -> tuple[Built, trt.Engine]:
    """A quantized model as it compiles: nodes that the compiler refuses in half precision stay float32.

    Where that does not help and it compiles with a float32 body, it has that one.

    Args:
        compiler: NVIDIA's.
        built: the model as it would be written.
    """
    first_built = built
    engine = first = compiler.compile(built.written.proto)
    for _ in range(_REFUSALS):
        half = built.written.body
        node = _refused(engine) if engine.status == "failed" and half is not None else ""
        if half is None or node not in half.halved:
            break
        body, why = built.draft.body, trt.plain(engine.reason).split("\n")[0]
        refused = {**body.refused, node: Reason("compiler", why, "tensorrt")}
        built = built.with_body(replace(body, refused=refused)).finished()
        engine = compiler.compile(built.written.proto)
    if engine.status != "failed" or built.written.body is None:
        return built, engine
    body = built.draft.body
    whole = built.with_body(replace(body, decision=None, refused={})).finished()
    engine = compiler.compile(whole.written.proto)
    if engine.status == "failed":  # it is not the body
        return first_built, first
    note = noted("body-not-taken", dtype=body.kind, why=trt.plain(first.reason))
    return whole.with_body(whole.draft.body.noting(note)), engine


def _blamed(
    compiler: Compiler, engine: trt.Engine, built: Built, written: Callable[[Built], Built]
) -> tuple[Built, trt.Engine, Regressed | None]:
    """What a quantized model fails by: where the original compiles, tried once more without a layer.

    Args:
        compiler: NVIDIA's.
        engine: what came of compiling it.
        built: the model.
        written: makes a model with layers in float as it is written.

    Returns:
        The model that is kept, with that layer in float where it compiles then; what came of compiling
        it; and by what the other one fails, None where the original does not compile either.

    Raises:
        UserError: a profile does not fit what the compiler makes of the inputs.
    """
    readers = built.draft.plan.readers
    if not compiler.original_compiles():
        return built, engine, None
    if not readers or compiler.compile(built.floats.proto).status != "compiled":
        layer = next(iter(_named(engine, _names(built))), "")
        return built, engine, _regressed(engine, "repair", layer)
    trials = _Trials(compiler, built)
    layer = ""
    for suspects in (_named(engine, readers)[:1], trials.first_to_fail()):
        for layer in suspects:
            rest, again = trials.without([layer])
            if again.status == "compiled":
                made, again = _as_it_compiles(compiler, written(rest))
                return made, again, _regressed(engine, "quantization", layer)
    return built, engine, _regressed(engine, "quantization", layer)


def _regressed(engine: trt.Engine, by: str, layer: str) -> Regressed | None:
    return Regressed(engine.reason, by, layer) if engine.reason else None


def _refused(engine: trt.Engine) -> str:
    """The node that the compiler says it does not take; "" where it names none."""
    named = next((error.node for error in engine.errors if error.node), "")
    return named or trt.node_of(engine.reason)


class _Trials:
    """A quantized model with some of its layers in float, compiled."""

    def __init__(self, compiler: Compiler, built: Built) -> None:
        self._compiler, self._built = compiler, built
        self._end = time.monotonic() + min(_SEARCH_SECONDS, built.job.limit.left)

    def without(self, nodes: Sequence[str]) -> tuple[Built, trt.Engine]:
        """The model with these nodes in float, and what the compiler makes of it, its body float32."""
        built = self._built.in_float(dict.fromkeys(nodes, KEPT_TO_COMPILE))
        return built, self._compiler.compile(built.proto, max(self._end - time.monotonic(), 1.0))

    def _readers(self, nodes: Sequence[str]) -> frozenset[str]:
        """The nodes that read pairs with these in float."""
        why = dict.fromkeys(nodes, KEPT_TO_COMPILE)
        return self._built.draft.in_float(why, self._built.floats.model).plan.readers

    def first_to_fail(self) -> Iterator[str]:
        """The first node, in the order of the graph, up to which the model cannot be quantized.

        Before it, what moves values to it alone, which is quantized with it. None where that takes too long.
        """
        readers = self._built.draft.plan.readers
        nodes = [name for name in _names(self._built) if name in readers]
        compiles, fails = 0, len(nodes)
        while fails - compiles > 1:
            if time.monotonic() > self._end:
                return
            middle = (compiles + fails) // 2
            if self.without(nodes[middle:])[1].status == "compiled":
                compiles = middle
            else:
                fails = middle
        with_it = self._readers(nodes[fails:]) - self._readers(nodes[fails - 1 :])
        yield from (name for name in nodes[: fails - 1] if name in with_it)
        yield nodes[fails - 1]


def _names(built: Built) -> list[str]:
    return [node.name for node in built.inserted.model.nodes]


def _named(engine: trt.Engine, nodes: Collection[str]) -> list[str]:
    """Those of the nodes that the compiler's words name, the longest name first."""
    in_errors = [error.node for error in engine.errors if error.node in nodes]
    in_text = [name for name in nodes if re.search(rf"(?<![\w./]){re.escape(name)}(?![\w./])", engine.reason)]
    return list(dict.fromkeys([*in_errors, *sorted(in_text, key=len, reverse=True)]))


COMPILE = ModelSearch(
    "compile", lambda run: run.compiled is None, _compiled,
    lambda run, why: _not_run(run, str(why)), needed=True,
)  # fmt: skip
