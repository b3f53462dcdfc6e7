"""Compiling the result, and finding out what is to blame where it does not compile and the original does."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from onnxq.base import interrupts
from onnxq.base.errors import Fault, UserError
from onnxq.base.reason import Reason
from onnxq.compiled.gpus import Gpu, gpus_named
from onnxq.compiled.verdict import Form, Verdict
from onnxq.documents.engine import EnginePart, Regressed
from onnxq.emit import files
from onnxq.graph.model import Model
from onnxq.options.settings import Compilation
from onnxq.pipeline.building import Built
from onnxq.pipeline.engine_part import engine_not_run, engine_part
from onnxq.pipeline.fastest import SpeedTrial, fastest
from onnxq.pipeline.job import Job
from onnxq.pipeline.verdict import Plain, form_of, verdict_of
from onnxq.run import trt
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import main_of
from onnxq.run.profiles import Profile

KEPT_TO_COMPILE = Reason(
    "does-not-compile", "NVIDIA's compiler fails where it is quantized, and takes the original", "tensorrt"
)

# How long to look for the layer to blame: each trial compiles.
_SEARCH_SECONDS = 180.0

_REFUSALS = 8
"""How many nodes of a half body the compiler may refuse before the body is float32."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result as it is kept.

    Attributes:
        built: the model.
        engine: the report's part on the compiler.
        verdict: what int8 does to the engine; of several deployments, in the one with most of the work.
        verdicts: the verdict for each of several deployments; empty where there is one.
        activation_bytes: what the engine needs for activations in each; empty where that is not known.
    """

    built: Built
    engine: EnginePart
    verdict: Verdict
    verdicts: tuple[Verdict, ...] = ()
    activation_bytes: tuple[int | None, ...] = ()


def check_compiler(wanted: Compilation) -> None:
    """Refuses to compile for what the compiler does not know, before all other work; the default it knows.

    Raises:
        UserError: it is such, or the GPU of the estimate is not known.
    """
    gpus_named(wanted.gpu)
    if wanted.compile and wanted.sm != Compilation().sm:
        trt.check_sm(wanted.sm)


def compiled(wanted: Compilation, deployments: Sequence[Deployment], built: Built) -> Compiled:
    """Compiles the result; leaves in float32, or in float, what it does not compile with.

    Args:
        wanted: whether it is to be compiled, and for what.
        deployments: shapes of the dynamic inputs: the engine has an optimization profile for each.
        built: the model as it is written.
    """
    job = built.job
    main = main_of(deployments)
    profiles = main.profiles
    form, over = form_of(job.target), gpus_named(wanted.gpu)
    plan = built.draft.plan

    def not_run(why: str) -> Compiled:
        part = engine_not_run(why, len(plan.planned))
        return Compiled(built, part, Verdict(f"nothing was compiled: {why}", form))

    if not job.target.explicit:
        return not_run(
            f"{job.target.title} is not here: it quantizes by the cache, when it builds the engine"
        )
    if not wanted.compile:
        return not_run("not asked for")
    with job.step("compile"):
        if trt.installed() is None:
            engine = trt.compile_engine(Path(), sm=wanted.sm)
            part = engine_part(engine, built.proto, plan.planned, format=plan.format.name)
            return Compiled(built, part, Verdict(engine.reason, form))
        plain = _plain(built, profiles)
        try:
            compiler = Compiler(job, wanted.sm, [profiles, *(one.profiles for one in _others(deployments))])
            compiler.beside = plain.proto if plain.sizes is None else None
            kept, engine = compiler.finished(built)
            failed, regressed = engine.status == "failed", None
            if failed:
                kept, engine, regressed = compiler.judge(engine, kept)
        except (UserError, Fault) as error:  # profiles do not fit, or the compiler is not understood
            return not_run(str(error))
        best = SpeedTrial(kept, engine, _verdict(plain, compiler.plain, engine, kept, form, over))
        if wanted.fastest and not failed:
            best = _fastest(compiler, plain, best, over)
    kept, plan = best.built, best.built.draft.plan
    part = engine_part(best.engine, kept.written.proto, plan.planned, regressed, plan.format.name)
    each = _Each(deployments, plain, best, over)
    return Compiled(kept, part, best.verdict, each.verdicts(), each.bytes())


def _others(deployments: Sequence[Deployment]) -> list[Deployment]:
    """All but the one with most of the work, whose profile is the first of engines that are built here."""
    main = main_of(deployments)
    return [one for one in deployments if one is not main]


@dataclass(frozen=True, slots=True)
class _Each:
    """What is known of an engine in each of several deployments, in their order.

    Attributes:
        deployments: they.
        plain: what int8 is compared with.
        best: the result; its engine has a profile for each, first that with most of the work, of which its
            verdict is.
        over: the GPUs of the estimate.
    """

    deployments: Sequence[Deployment]
    plain: Plain
    best: SpeedTrial
    over: Sequence[Gpu]

    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict in each, of both models with its usual sizes; none where there is one deployment."""
        if not self.deployments[0].name:
            return ()
        found, best = [], self.best
        for one in self.deployments:
            if one is main_of(self.deployments):
                found.append(best.verdict)
                continue
            plain = replace(self.plain, sizes={name: usual for name, (_, usual, _) in one.profiles.items()})
            found.append(_verdict(plain, None, best.engine, best.built, best.verdict.form, self.over))
        return tuple(found)

    def bytes(self) -> tuple[int | None, ...]:
        """What the engine needs for activations in each; None where it is not known."""
        order = [main_of(self.deployments), *_others(self.deployments)]
        known = self.best.engine.activation_bytes
        if len(known) < len(order):
            return (None,) * len(order)
        return tuple(known[next(i for i, own in enumerate(order) if own is one)] for one in self.deployments)


def _plain(built: Built, profiles: Mapping[str, Profile]) -> Plain:
    """What int8 is compared with; a fault of ours does not cost the run."""
    try:
        return Plain.of(built, profiles=profiles)
    except Exception as error:
        return Plain(None, _fault(error))


def _verdict(
    plain: Plain,
    fp16: trt.Engine | None,
    engine: trt.Engine,
    built: Built,
    form: Form,
    over: Sequence[Gpu],
) -> Verdict:
    """What int8 does to the engine; a fault of ours does not cost the run."""
    try:
        return verdict_of(plain, fp16, engine, built.written.proto, built.draft.plan, form, over)
    except Exception as error:
        return Verdict(_fault(error), form)


def _fastest(compiler: Compiler, plain: Plain, first: SpeedTrial, over: Sequence[Gpu]) -> SpeedTrial:
    """The model without int8 where by estimate int8 loses; a fault of ours does not cost the run."""
    form = first.verdict.form

    def judge(engine: trt.Engine, built: Built) -> Verdict:
        return verdict_of(plain, compiler.plain, engine, built.written.proto, built.draft.plan, form, over)

    try:
        return fastest(first, lambda built: compiler.compile(built.written.proto), judge)
    except Exception as error:
        why = f"no layer was left in float for speed: that ends in a fault of onnxq ({error!r})"
        return replace(first, built=first.built.with_body(first.built.draft.body.noting(why)))


def _fault(error: Exception) -> str:
    return f"comparing with float16 ends in a fault of onnxq ({type(error).__name__}: {error})"


class Compiler:
    """NVIDIA's compiler, for one job."""

    def __init__(self, job: Job, sm: int, profiles: Sequence[Mapping[str, Profile]]) -> None:
        """What to compile for; `profiles`: shapes of the dynamic inputs, in each deployment."""
        self._job, self._sm, self._profiles = job, sm, profiles
        self.beside: onnx.ModelProto | None = None  # compiled with the next model, in the same process
        self.plain: trt.Engine | None = None  # the engine of that

    def finished(self, built: Built) -> tuple[Built, trt.Engine]:
        """A quantized model as it compiles: nodes that the compiler refuses in half precision stay float32.

        Where that does not help and it compiles with a float32 body, it has that one.

        Args:
            built: the model as it would be written.
        """
        first_built = built
        engine = first = self.compile(built.written.proto)
        for _ in range(_REFUSALS):
            half = built.written.body
            node = _refused(engine) if engine.status == "failed" and half is not None else ""
            if half is None or node not in half.halved:
                break
            body, why = built.draft.body, trt.plain(engine.reason).split("\n")[0]
            refused = {**body.refused, node: Reason("compiler", why, "tensorrt")}
            built = built.with_body(replace(body, refused=refused)).finished()
            engine = self.compile(built.written.proto)
        if engine.status != "failed" or built.written.body is None:
            return built, engine
        body = built.draft.body
        whole = built.with_body(replace(body, decision=None, refused={})).finished()
        engine = self.compile(whole.written.proto)
        if engine.status == "failed":  # it is not the body
            return first_built, first
        note = (
            f"NVIDIA's compiler does not take the {body.kind} body, and takes a float32 one: "
            f"{trt.plain(first.reason)}"
        )
        return whole.with_body(whole.draft.body.noting(note)), engine

    def judge(self, engine: trt.Engine, built: Built) -> tuple[Built, trt.Engine, Regressed | None]:
        """What a quantized model fails by: where the original compiles, tried once more without a layer.

        Args:
            engine: what came of compiling it.
            built: the model.

        Returns:
            The model that is kept, with that layer in float where it compiles then; what came of compiling
            it; and by what the other one fails, None where the original does not compile either.

        Raises:
            UserError: a profile does not fit what the compiler makes of the inputs.
        """
        readers = built.draft.plan.readers
        if not self._original_compiles():
            return built, engine, None
        if not readers or self.compile(built.floats.proto).status != "compiled":
            layer = next(iter(_named(engine, _names(built.proto))), "")
            return built, engine, _regressed(engine, "repair", layer)
        trials = _Trials(self, built)
        layer = ""
        for suspects in (_named(engine, readers)[:1], trials.first_to_fail()):
            for layer in suspects:
                rest, again = trials.without([layer])
                if again.status == "compiled":
                    made, again = self.finished(rest.finished())
                    return made, again, _regressed(engine, "quantization", layer)
        return built, engine, _regressed(engine, "quantization", layer)

    def compile(self, model: onnx.ModelProto, timeout: float = 900.0) -> trt.Engine:
        """Compiles a model whose external data is where the job's is."""
        with interrupts.Folder() as folder:
            models, self.beside = [model, self.beside], None
            paths = []
            for place, one in enumerate(filter(None, models)):
                paths.append(Path(folder) / f"{place}.onnx")
                files.save_model(one, paths[-1], self._job.model.data_dir)
            shapes, *more = self._profiles
            first, *plain = trt.compile_engines(
                paths, sm=self._sm, profiles=shapes, more=more, timeout=timeout
            )
            self.plain = plain[0] if plain else self.plain
            return first

    def _original_compiles(self) -> bool:
        """Whether the model does that the user gave, as far as that can be told."""
        original = self._job.original()
        with interrupts.Folder() as folder:
            path = Path(folder) / "model.onnx"
            if isinstance(original, Path):
                path = original
            elif isinstance(original, Model):
                files.save_model(original.to_proto(), path, original.data_dir)
            else:
                files.save_model(original, path, None)
            for shapes, *more in (self._profiles, [{}]):
                with contextlib.suppress(UserError):  # its inputs are others than the result's
                    built = trt.compile_engine(path, sm=self._sm, profiles=shapes, more=more)
                    return built.status == "compiled"
        return False


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
        self._end = time.monotonic() + _SEARCH_SECONDS

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
        known = self._built.draft.plan.readers
        nodes = [name for name in _names(self._built.proto) if name in known]
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


def _names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


def _named(engine: trt.Engine, nodes: Collection[str]) -> list[str]:
    """Those of the nodes that the compiler's words name, the longest name first."""
    said = [error.node for error in engine.errors if error.node in nodes]
    found = [name for name in nodes if re.search(rf"(?<![\w./]){re.escape(name)}(?![\w./])", engine.reason)]
    return list(dict.fromkeys([*said, *sorted(found, key=len, reverse=True)]))
