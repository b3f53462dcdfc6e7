"""NVIDIA's compiler, for one run: what it makes of models, beside the same model in plain float16."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError, fault_of
from onnxq.base.reason import reason
from onnxq.compiled.verdict import Verdict
from onnxq.documents.engine import EnginePart, Regressed
from onnxq.emit import files
from onnxq.graph.model import Model
from onnxq.options.settings import Compilation
from onnxq.pipeline.building import Built
from onnxq.pipeline.engine_part import engine_not_run, engine_part
from onnxq.pipeline.job import Job
from onnxq.pipeline.verdict import Plain, form_of, verdict_of
from onnxq.run import ort, own_ops, trt
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import main_of
from onnxq.run.profiles import Profile, shared_profiles
from onnxq.targets import Target
from onnxq.targets.devices import ASSUMED, devices, first_with


@dataclass(frozen=True, slots=True)
class Compiled:
    """What NVIDIA's compiler made of a model.

    Attributes:
        engine: the engine, or why there is none; None: nothing was compiled.
        verdict: what int8 does to it; of several deployments, in the one with most of the work.
        why: why nothing was compiled.
        regressed: by what it fails, where the original compiles.
        engines: what compiles others; None where nothing is compiled.
    """

    engine: trt.Engine | None
    verdict: Verdict
    why: str = ""
    regressed: Regressed | None = None
    engines: Engines | None = None

    def part(self, built: Built) -> EnginePart:
        """The report's part on the compiler; `built`: the model."""
        plan = built.draft.plan
        if self.engine is None:
            return engine_not_run(self.why, len(plan.planned))
        planned = {layer.node: layer.format for layer in plan.layers if layer.quantized}
        return engine_part(self.engine, built.written.proto, planned, self.regressed)

    def verdicts(self, built: Built) -> tuple[Verdict, ...]:
        """The verdict for each of several deployments; empty where there is one."""
        if self.engines is None or self.engine is None:
            return ()
        return self.engines.verdicts(built, self.engine, self.verdict)

    @property
    def activation_bytes(self) -> tuple[int | None, ...]:
        """What the engine needs for activations in each deployment; empty where that is not known."""
        if self.engines is None or self.engine is None:
            return ()
        return self.engines.bytes(self.engine)


def check_device(wanted: Compilation, target: Target) -> None:
    """Refuses a device that the target's TensorRT does not serve, and what the compiler does not compile for.

    Raises:
        UserError: it is such.
    """
    device = wanted.stated
    if device is not None and not device.serves(target):
        raise UserError(
            f"{target.title} does not run on {device.title}: that has TensorRT {device.releases}",
            hint=f"give --target {device.target}",
        )
    if wanted.dla and (device is None or not device.dla):
        having = " or ".join(one.name for one in devices() if one.dla)
        which = "no device is named" if device is None else f"{device.title} has no DLA"
        raise UserError(f"--dla is given, and {which}", hint=f"give --device {having}, or leave --dla out")
    if wanted.dla and device is not None and not device.has_dla(target):
        raise UserError(
            f"{target.title} does not run on the DLA of {device.title}",
            hint="give --target 10.3 for JetPack 6, 8.5 for JetPack 5, or 11.4 for AGX Orin",
        )
    sm = wanted.sm(target)
    if wanted.compile and target.is_compiled_here and sm != ASSUMED:
        trt.check_sm(sm)


def check_format(wanted: Compilation, target: Target, body: str | None) -> None:
    """Refuses a device that does not multiply in a format of the run.

    Args:
        wanted: what is asked of the compiler.
        target: the target, in those formats, which a flag, a plan or the model's own pairs say.
        body: the type of what is not quantized; None: it is not stated.

    Raises:
        UserError: it is such.
    """
    device = wanted.stated
    for name in (*target.formats, body or ""):
        if device is not None and not device.multiplies(name):
            least = f"compute capability {first_with(name) / 10:.1f}"
            instead = "--body fp16" if name == body else "--format int8"
            raise UserError(
                f"{device.title} multiplies nothing in {name}: that came with {least}",
                hint=f"give {instead}, or a --device of {least} or a later one",
            )


class Engines:
    """What compiles a run's models, and says what quantization does to their engines.

    Attributes:
        compiler: NVIDIA's.
    """

    def __init__(self, wanted: Compilation, deployments: Sequence[Deployment], built: Built) -> None:
        """Nothing is compiled yet.

        Args:
            wanted: for what they are compiled.
            deployments: shapes of the dynamic inputs: an engine has an optimization profile for each.
            built: the first model.
        """
        self._deployments = deployments
        main = main_of(deployments)
        self._plain, self._form = _plain(built, main.profiles), form_of(built.job.target)
        profiles = [main.profiles, *(one.profiles for one in self._others)]
        self.compiler = Compiler(built.job, wanted.sm(built.job.target), profiles)
        self.compiler.beside = self._plain.proto if self._plain.sizes is None else None

    @property
    def _others(self) -> list[Deployment]:
        """All deployments but the one with most of the work, whose profile is the engines' first."""
        return [one for one in self._deployments if one is not main_of(self._deployments)]

    def compared(self, engine: trt.Engine, built: Built) -> Verdict:
        """What quantization does to an engine; a fault of ours in it does not cost the run."""
        return self._said(lambda: self.judged(engine, built), built)

    def judged(self, engine: trt.Engine, built: Built) -> Verdict:
        """What quantization does to an engine."""
        return self._judged(self._plain, self.compiler.plain, engine, built)

    def _judged(self, plain: Plain, fp16: trt.Engine | None, engine: trt.Engine, built: Built) -> Verdict:
        written, plan = built.written.proto, built.draft.plan
        return verdict_of(plain, fp16, engine, written, plan, self._form)

    def _said(self, judged: Callable[[], Verdict], built: Built) -> Verdict:
        try:
            return judged()
        except Exception as error:
            return Verdict(_not_compared(error), self._form, format=built.draft.plan.format_names)

    def verdicts(self, built: Built, engine: trt.Engine, main_verdict: Verdict) -> tuple[Verdict, ...]:
        """The verdict in each deployment, of both models with its usual sizes; none where there is one.

        Args:
            built: the quantized model.
            engine: its engine.
            main_verdict: that in the deployment with most of the work.
        """
        if not self._deployments[0].name:
            return ()
        main, verdicts = main_of(self._deployments), []
        for deployment in self._deployments:
            if deployment is main:
                verdicts.append(main_verdict)
                continue
            sizes = {name: usual for name, (_, usual, _) in deployment.profiles.items()}
            plain = replace(self._plain, sizes=sizes)
            verdicts.append(self._said(partial(self._judged, plain, None, engine, built), built))
        return tuple(verdicts)

    def bytes(self, engine: trt.Engine) -> tuple[int | None, ...]:
        """What an engine needs for activations in each deployment; None where it is not known."""
        order, bytes_of = [main_of(self._deployments), *self._others], engine.activation_bytes
        if len(bytes_of) < len(order):
            return (None,) * len(order)
        return tuple(
            bytes_of[next(i for i, own in enumerate(order) if own is one)] for one in self._deployments
        )


def _plain(built: Built, profiles: Mapping[str, Profile]) -> Plain:
    """What the quantized model is compared with; a fault of ours does not cost the run."""
    try:
        return Plain.of(built, profiles=profiles)
    except Exception as error:
        return Plain(None, _not_compared(error))


def _not_compared(error: Exception) -> str:
    return reason("comparing-ends", fault=fault_of(error))


class Compiler:
    """NVIDIA's compiler, for one job."""

    def __init__(self, job: Job, sm: int, profiles: Sequence[Mapping[str, Profile]]) -> None:
        """What to compile for; `profiles`: shapes of the dynamic inputs, in each deployment."""
        self._job, self._sm, self._profiles = job, sm, profiles
        self.beside: onnx.ModelProto | None = None  # compiled with the next model, in the same process
        self.plain: trt.Engine | None = None  # the engine of that

    def compile(self, model: onnx.ModelProto, timeout: float = 900.0) -> trt.Engine:
        """Compiles a model whose external data is where the job's is."""
        with interrupts.Folder() as folder:
            data_dir, profiles = self._job.model.data_dir, self._profiles
            models = [own_ops.cut_out(ort.with_types(one, data_dir)) for one in (model, self.beside) if one]
            self.beside = None
            if models[0] is not model:
                profiles = [shared_profiles(models[0].graph.input, one) for one in profiles]
            paths = []
            for place, proto in enumerate(models):
                paths.append(Path(folder) / f"{place}.onnx")
                files.save_model(proto, paths[-1], data_dir)
            shapes, *more = profiles
            first, *plain = trt.compile_engines(
                paths, sm=self._sm, profiles=shapes, more=more, timeout=timeout
            )
            self.plain = plain[0] if plain else self.plain
            return first

    def original_compiles(self) -> bool:
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
