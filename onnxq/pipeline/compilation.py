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
from onnxq.pipeline.body import Finish, Finished
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.choosing import Quantized, refined
from onnxq.pipeline.engine_part import engine_not_run, engine_part
from onnxq.pipeline.fastest import SpeedTrial, fastest
from onnxq.pipeline.job import Job
from onnxq.pipeline.verdict import Plain, form_of, verdict_of
from onnxq.quant.plan import QuantPlan
from onnxq.quant.wants import left_float
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


Rest = tuple[Prepared, Quantized]
"""What is left of a plan, and the model of it, its body float32."""


@dataclass(frozen=True, slots=True)
class CompilerVerdict:
    """What the compiler says.

    Attributes:
        engine: what came of the model that is kept.
        failure: why a model did not compile whose original does; empty where none is like that.
        blame: "quantization", "repair" or "", of a failure.
        layer: the layer where it breaks, "" where that is not known.
        rest: plan and model with that layer in float; None where none compiles.
        made: the model of it, as it is written.
    """

    engine: trt.Engine
    failure: str = ""
    blame: str = ""
    layer: str = ""
    rest: Rest | None = None
    made: Finished | None = None

    @property
    def regression(self) -> Regressed | None:
        """The failure for the report; None where there is none."""
        return Regressed(self.failure, self.blame, self.layer) if self.failure else None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result as it is kept.

    Attributes:
        made: the model.
        quantized: the same with a body of float32.
        plan: what is quantized in it.
        engine: the report's part on the compiler.
        verdict: what int8 does to the engine; of several deployments, in the one with most of the work.
        done: the same as `quantized` with its scales, where layers are left in float because of the
            compiler; None where there are none.
        verdicts: the verdict for each of several deployments; empty where there is one.
        activation_bytes: what the engine needs for activations in each; empty where that is not known.
    """

    made: Finished
    quantized: onnx.ModelProto
    plan: QuantPlan
    engine: EnginePart
    verdict: Verdict
    done: Quantized | None = None
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


def compiled(
    job: Job,
    wanted: Compilation,
    deployments: Sequence[Deployment],
    prepared: Prepared,
    done: Quantized,
    finish: Finish,
    made: Finished,
) -> Compiled:
    """Compiles the result; leaves in float32, or in float, what it does not compile with.

    Args:
        job: of the model.
        wanted: whether it is to be compiled, and for what.
        deployments: shapes of the dynamic inputs: the engine has an optimization profile for each.
        prepared: the plan, and the model without pairs.
        done: the quantized model, its body float32.
        finish: makes the model that is written of such a one.
        made: that of `done`.
    """
    main = main_of(deployments)
    profiles = main.profiles
    plan, form, over = prepared.plan, form_of(job.target), gpus_named(wanted.gpu)

    def not_run(why: str) -> Compiled:
        part = engine_not_run(why, len(plan.planned))
        return Compiled(made, done.proto, plan, part, Verdict(f"nothing was compiled: {why}", form))

    if not job.target.explicit:
        return not_run(
            f"{job.target.title} is not here: it quantizes by the cache, when it builds the engine"
        )
    if not wanted.compile:
        return not_run("not asked for")
    with job.step("compile"):
        if trt.installed() is None:
            engine = trt.compile_engine(Path(), sm=wanted.sm)
            part = engine_part(engine, done.proto, plan.planned, format=plan.format.name)
            return Compiled(made, done.proto, plan, part, Verdict(engine.reason, form))
        plain = _plain(job, prepared, finish, profiles)
        try:
            compiler = Compiler(job, wanted.sm, [profiles, *(one.profiles for one in _others(deployments))])
            compiler.beside = plain.proto if plain.sizes is None else None
            made, engine = compiler.finished(done.model, finish, made)
            if engine.status != "failed":
                compared = _verdict(plain, compiler.plain, engine, made, plan, form, over)
                first = best = SpeedTrial(prepared, done, made, engine, compared)
                if wanted.fastest:
                    best = _fastest(job, compiler, plain, first, finish, over)
                made, plan = best.made, best.prepared.plan
                part = engine_part(best.engine, made.proto, plan.planned, format=plan.format.name)
                changed = best.done if best.done is not done else None
                each = _Each(deployments, plain, best.engine, made, plan, best.verdict, over)
                return Compiled(
                    made, best.done.proto, plan, part, best.verdict, changed, each.verdicts(), each.bytes()
                )
            verdict = compiler.judge(engine, prepared, done, finish)
        except (UserError, Fault) as error:  # profiles do not fit, or the compiler is not understood
            return not_run(str(error))
    rest = None
    if verdict.rest is not None and verdict.made is not None:
        (prepared, rest), made = verdict.rest, verdict.made
        plan = prepared.plan
    part = engine_part(verdict.engine, made.proto, plan.planned, verdict.regression, plan.format.name)
    compared = _verdict(plain, compiler.plain, verdict.engine, made, plan, form, over)
    each = _Each(deployments, plain, verdict.engine, made, plan, compared, over)
    return Compiled(made, (rest or done).proto, plan, part, compared, rest, each.verdicts(), each.bytes())


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
        engine: the engine of the result, with a profile for each: first that with most of the work.
        made: the result.
        plan: what is quantized in it.
        main: the verdict in that deployment.
        over: the GPUs of the estimate.
    """

    deployments: Sequence[Deployment]
    plain: Plain
    engine: trt.Engine
    made: Finished
    plan: QuantPlan
    main: Verdict
    over: Sequence[Gpu]

    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict in each, of both models with its usual sizes; none where there is one deployment."""
        if not self.deployments[0].name:
            return ()
        found = []
        for one in self.deployments:
            if one is main_of(self.deployments):
                found.append(self.main)
                continue
            plain = replace(self.plain, sizes={name: usual for name, (_, usual, _) in one.profiles.items()})
            found.append(_verdict(plain, None, self.engine, self.made, self.plan, self.main.form, self.over))
        return tuple(found)

    def bytes(self) -> tuple[int | None, ...]:
        """What the engine needs for activations in each; None where it is not known."""
        order = [main_of(self.deployments), *_others(self.deployments)]
        known = self.engine.activation_bytes
        if len(known) < len(order):
            return (None,) * len(order)
        return tuple(known[next(i for i, own in enumerate(order) if own is one)] for one in self.deployments)


def _plain(job: Job, prepared: Prepared, finish: Finish, profiles: Mapping[str, Profile]) -> Plain:
    """What int8 is compared with; a fault of ours does not cost the run."""
    try:
        return Plain.of(job, prepared, io=finish.wish.io, profiles=profiles)
    except Exception as error:
        return Plain(None, _fault(error))


def _verdict(
    plain: Plain,
    fp16: trt.Engine | None,
    engine: trt.Engine,
    made: Finished,
    plan: QuantPlan,
    form: Form,
    over: Sequence[Gpu],
) -> Verdict:
    """What int8 does to the engine; a fault of ours does not cost the run."""
    try:
        return verdict_of(plain, fp16, engine, made.proto, plan, form, over)
    except Exception as error:
        return Verdict(_fault(error), form)


def _fastest(
    job: Job, compiler: Compiler, plain: Plain, first: SpeedTrial, finish: Finish, over: Sequence[Gpu]
) -> SpeedTrial:
    """The model without int8 where by estimate int8 loses; a fault of ours does not cost the run."""
    form = first.verdict.form

    def judge(engine: trt.Engine, made: Finished, plan: QuantPlan) -> Verdict:
        return verdict_of(plain, compiler.plain, engine, made.proto, plan, form, over)

    try:
        return fastest(job, first, finish, lambda made: compiler.compile(made.proto), judge)
    except Exception as error:
        why = f"no layer was left in float for speed: that ends in a fault of onnxq ({error!r})"
        finish.notes.append(why)
        return first


def _fault(error: Exception) -> str:
    return f"comparing with float16 ends in a fault of onnxq ({type(error).__name__}: {error})"


class Compiler:
    """NVIDIA's compiler, for one job."""

    def __init__(self, job: Job, sm: int, profiles: Sequence[Mapping[str, Profile]]) -> None:
        """What to compile for; `profiles`: shapes of the dynamic inputs, in each deployment."""
        self._job, self._sm, self._profiles = job, sm, profiles
        self.beside: onnx.ModelProto | None = None  # compiled with the next model, in the same process
        self.plain: trt.Engine | None = None  # the engine of that

    def finished(self, model: Model, finish: Finish, made: Finished) -> tuple[Finished, trt.Engine]:
        """A quantized model as it compiles: nodes that the compiler refuses in half precision stay float32.

        Where that does not help and it compiles with a float32 body, it has that one.

        Args:
            model: the quantized model, its body float32.
            finish: makes the model that is written of such a one; it learns what stays.
            made: what it made.
        """
        engine = first = self.compile(made.proto)
        for _ in range(_REFUSALS):
            node = _refused(engine) if engine.status == "failed" and made.body is not None else ""
            if made.body is None or node not in made.body.halved:
                break
            finish.refused[node] = Reason("compiler", trt.plain(engine.reason).split("\n")[0], "tensorrt")
            made = finish(model)
            engine = self.compile(made.proto)
        if engine.status != "failed" or made.body is None:
            return made, engine
        whole = finish.in_float32()(model)
        engine = self.compile(whole.proto)
        if engine.status == "failed":  # it is not the body
            finish.refused.clear()
            return finish(model), first
        finish.decision = None
        finish.notes.append(
            f"NVIDIA's compiler does not take the {finish.wish.kind} body, and takes a float32 one: "
            f"{trt.plain(first.reason)}"
        )
        return whole, engine

    def judge(
        self,
        engine: trt.Engine,
        prepared: Prepared,
        done: Quantized,
        finish: Finish,
    ) -> CompilerVerdict:
        """What a quantized model fails by: where the original compiles, tried once more without a layer.

        Args:
            engine: what came of compiling it.
            prepared: what it was quantized from, and what is quantized.
            done: the quantized model, its body float32.
            finish: makes the model that is written of one with a float32 body.

        Raises:
            UserError: a profile does not fit what the compiler makes of the inputs.
        """
        if not self._original_compiles():
            return CompilerVerdict(engine)
        if not prepared.plan.readers or self.compile(prepared.sanitized).status != "compiled":
            return CompilerVerdict(
                engine, engine.reason, "repair", next(iter(_named(engine, _names(done.proto))), "")
            )
        trials = _Trials(self, self._job, prepared, done)
        layer = ""
        for suspects in (_named(engine, prepared.plan.readers)[:1], trials.first_to_fail()):
            for layer in suspects:
                rest, again = trials.without([layer])
                if again.status == "compiled":
                    model = rest[1].model
                    made, again = self.finished(model, finish, finish(model))
                    return CompilerVerdict(again, engine.reason, "quantization", layer, rest, made)
        return CompilerVerdict(engine, engine.reason, "quantization", layer)

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


def _refused(engine: trt.Engine) -> str:
    """The node that the compiler says it does not take; "" where it names none."""
    named = next((error.node for error in engine.errors if error.node), "")
    return named or trt.node_of(engine.reason)


class _Trials:
    """A quantized model with some of its layers in float, compiled."""

    def __init__(self, compiler: Compiler, job: Job, prepared: Prepared, done: Quantized) -> None:
        self._compiler, self._job, self._prepared, self._done = compiler, job, prepared, done
        self._ops = {node.name: node.op for node in job.model.graph.nodes}
        self._end = time.monotonic() + _SEARCH_SECONDS

    def without(self, nodes: Sequence[str]) -> tuple[Rest, trt.Engine]:
        """Plan and model with these nodes in float, and what the compiler makes of it."""
        prepared = replace(self._prepared)
        done = refined(self._job, prepared, self._done, self._left(nodes))
        engine = self._compiler.compile(done.proto, max(self._end - time.monotonic(), 1.0))
        return (prepared, done), engine

    def _left(self, nodes: Sequence[str]) -> QuantPlan:
        return left_float(self._prepared.plan, dict.fromkeys(nodes, KEPT_TO_COMPILE), self._ops)

    def first_to_fail(self) -> Iterator[str]:
        """The first node, in the order of the graph, up to which the model cannot be quantized.

        Before it, what moves values to it alone, which is quantized with it. None where that takes too long.
        """
        known = self._prepared.plan.readers
        nodes = [name for name in _names(self._done.proto) if name in known]
        compiles, fails = 0, len(nodes)
        while fails - compiles > 1:
            if time.monotonic() > self._end:
                return
            middle = (compiles + fails) // 2
            if self.without(nodes[middle:])[1].status == "compiled":
                compiles = middle
            else:
                fails = middle
        with_it = self._left(nodes[fails:]).readers - self._left(nodes[fails - 1 :]).readers
        yield from (name for name in nodes[: fails - 1] if name in with_it)
        yield nodes[fails - 1]


def _names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


def _named(engine: trt.Engine, nodes: Collection[str]) -> list[str]:
    """Those of the nodes that the compiler's words name, the longest name first."""
    said = [error.node for error in engine.errors if error.node in nodes]
    found = [name for name in nodes if re.search(rf"(?<![\w./]){re.escape(name)}(?![\w./])", engine.reason)]
    return list(dict.fromkeys([*said, *sorted(found, key=len, reverse=True)]))
