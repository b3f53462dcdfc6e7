"""`check`: what the target, NVIDIA's compiler and the checks say against a model, as one list of findings."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from onnxq.base.heap import uncollected
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.shown import Shown, Words, count
from onnxq.base.version import VERSION
from onnxq.checks import Check, Need
from onnxq.checks.finding import SEVERITIES, Finding, by_severity, exit_code
from onnxq.checks.lint import confirmed_lint, explains, seen_in
from onnxq.checks.load import CHECKS, checks_that_need, finding, found_by
from onnxq.checks.own import found_by_own, load_own
from onnxq.checks.subject import subject_of
from onnxq.data.image_options import image_options
from onnxq.data.sources import DataSource
from onnxq.documents.changes import NotTaken, TakenByRuntime
from onnxq.documents.report import Report
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.options.call_options import CheckOptions
from onnxq.options.keywords import takes_options
from onnxq.options.settings import (
    Calibration,
    Compilation,
    Feeding,
    ImageOptions,
    Inputs,
    Keywords,
    Repairs,
    Runtime,
)
from onnxq.pipeline import reporting, sanitize_any
from onnxq.pipeline.calibration import Calibrating, Given
from onnxq.pipeline.compilation import check_compiler
from onnxq.pipeline.engines import Statements, compile_both
from onnxq.pipeline.evidence import evidence_of
from onnxq.pipeline.job import Job
from onnxq.pipeline.reporting import beyond_compiler, deciding_inputs, unsupported
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.rewrite.changes import Assumption, Change, NearMiss
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt
from onnxq.targets import load_target

_ROWS = 10
_REPEATS = ("parser", "compiler")


@dataclass(frozen=True, slots=True)
class EngineTried(DocumentPart):
    """What NVIDIA's compiler made of a model.

    Attributes:
        sm: the compute capability, 89 for 8.9.
        original: the status of the engine of the model as it is, see `onnxq.run.trt.Engine`.
        sanitized: the same of the model as `sanitize` would write it.
        profiles: smallest, usual and largest shape of dynamic inputs, as compiled for.
        warnings: what the compiler says of the sanitized model.
        beyond: the operator of each node that the target takes and the compiler that is here does not.
    """

    sm: int
    original: str
    sanitized: str
    profiles: Mapping[str, Sequence[Sequence[int]]]
    warnings: tuple[str, ...]
    beyond: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MeasuredForChecks(DocumentPart):
    """What the checks on data looked at.

    Attributes:
        samples: how many samples, 0 where none could be run.
        tensors: how many tensors were measured.
        pairs: whether scales are those of the model's own Q/DQ pairs; else those that `quantize` would begin
            with.
    """

    samples: int
    tensors: int
    pairs: bool


@dataclass(frozen=True, slots=True, repr=False)
class Checks(Shown, DocumentPart):
    """What `check` found.

    Attributes:
        kind: "checks".
        schema: 2.
        onnxq: the version.
        model: the path of the model, None for one in memory.
        target: what it is checked for.
        opset: the model's.
        ir_version: the model's.
        compiler: NVIDIA's compiler and its version; None where it is not installed, or not of the target.
        engine: what it made of the model; None where it was not asked.
        findings: the worst first.
        changes: what `sanitize` would change, as in its report.
        rejected: changes whose proof failed.
        near_misses: changes that a rule would make if it knew more.
        assumptions: what `sanitize` would rely on.
        measured: what the checks on data looked at; None: there were neither data nor statistics.
        config: the settings file that the command read, None for none.
    """

    kind: str
    schema: int
    onnxq: str
    model: str | None
    target: str
    opset: int
    ir_version: int
    compiler: str | None
    engine: EngineTried | None
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]
    rejected: tuple[Change, ...]
    near_misses: tuple[NearMiss, ...]
    assumptions: tuple[Assumption, ...]
    measured: MeasuredForChecks | None = None
    config: str | None = None

    def words(self) -> Words:
        """How much was found, the worst first."""
        bad = [one for one in self.findings if one.severity != "note"]
        each = [
            count(sum(one.severity == severity for one in self.findings), severity) for severity in SEVERITIES
        ]
        engine = f"NVIDIA's compiler: {self.engine.original}" if self.engine is not None else ""
        rows = [(one.severity, one.node, one.op, one.reason, one.advice) for one in bad[:_ROWS]]
        head = f"check of {self.model}, for {self.target}: {'findings' if bad else 'nothing is wrong'}"
        return Words(head, (*each, engine), ("severity", "node", "operator", "what", "do"), rows)

    def exit_code(self, *, strict: bool = False) -> int:
        """1 where there is an error, or with `strict` a warning; notes never count."""
        return exit_code(self.findings, strict=strict)


_NOT_HERE = (
    "allow_interface_changes",
    "gpu",
    "fastest",
    "profile_weights",  # options of what is made, and nothing is
)


@takes_options(Repairs, Inputs, Compilation, Calibration, Feeding, Runtime, without=_NOT_HERE)
def check(
    model: str | Path,
    data: DataSource | None = None,
    *,
    checks: Sequence[str | os.PathLike[str]] = (),
    calibration: Calibration | Mapping[str, Any] | None = None,
    feeding: Feeding | Mapping[str, Any] | None = None,
    images: ImageOptions | Mapping[str, Any] | None = None,
    repairs: Repairs | Mapping[str, Any] | None = None,
    inputs: Inputs | Mapping[str, Any] | None = None,
    compilation: Compilation | Mapping[str, Any] | None = None,
    runtime: Runtime | Mapping[str, Any] | None = None,
    again: Sequence[str] = (),
    observe: Observer | None = None,
    **options: Unpack[CheckOptions],
) -> Checks:
    """What is wrong with a model, and what onnxq would do about it; changes nothing.

    Args:
        model: the file.
        data: as in `quantize`; with it, or with `calibration.stats`, the checks on data run.
        checks: checks of the user's, `FILE.py` or `FILE.py:FUNCTION`: each `onnxq.checks.check` is called
            with what it needs, a plain function with an `onnxq.checks.Evidence`, and gives findings.
        calibration: how ranges would be chosen; `stats`: what `onnxq calibrate` wrote, in the place of data.
        feeding: how samples become inputs.
        images: how image files do.
        repairs: what the model is for, and which rules there are.
        inputs: what is stated about its inputs.
        compilation: how it is compiled, where NVIDIA's compiler is installed and speaks for the target.
        runtime: what onnxruntime runs it with, for the proofs.
        again: flags that an advised command line is to repeat, beside those of the data.
        observe: is told the steps.
        options: fields of these groups, each as a keyword of its own: `target="tensorrt-8.6"`.

    Raises:
        UserError: the model or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    keywords = Keywords("check", options)
    repairs = keywords.group(Repairs, repairs, without=_NOT_HERE)
    inputs = keywords.group(Inputs, inputs, without=_NOT_HERE)
    compilation = keywords.group(Compilation, compilation, without=_NOT_HERE)
    calibration, feeding = keywords.group(Calibration, calibration), keywords.group(Feeding, feeding)
    runtime = keywords.group(Runtime, runtime)
    keywords.end()
    own = [one for spec in checks for one in load_own(spec)]
    given = None
    if calibration.stats is not None:
        given = Given.read(calibration.stats, partial=calibration.partial)
    asked = _Asked(data, image_options(images), calibration, feeding, given, own, tuple(again))
    with ort.custom_ops(runtime.ort_ops):
        return _check(Path(model), repairs, inputs, compilation, asked, told(observe))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the checks on data are given, and those of the user."""

    data: DataSource | None
    images: ImageOptions | None
    calibration: Calibration
    feeding: Feeding
    given: Given | None
    own: Sequence[Check]
    again: tuple[str, ...] = ()


def _check(
    path: Path, repairs: Repairs, inputs: Inputs, compilation: Compilation, asked: _Asked, tell: Observer
) -> Checks:
    target = load_target(repairs.target)
    stated = Statements(inputs.shapes or {}, inputs.assume or {}, inputs.profiles or {})
    compiler = trt.installed() if target.is_compiled_here else None
    if compiler is not None:
        check_compiler(compilation)
    data, given = asked.data, asked.given
    job, source = None, None
    if data is not None or given is not None or any(one.needs == "plan" for one in asked.own):
        with uncollected():
            job = Job.of(path, repairs, inputs, tell)
            if data is not None:
                job, source = job.with_data(data, asked.images, asked.feeding)
            job = job.sanitized()
            refuse_sizes(job)
            result = job.result(job.model.to_proto())
    else:
        result = sanitize_any(path, repairs, inputs, tell)
    original = Model.open(path)
    original.limits = target.limits
    engines = None
    if compiler is not None and compilation.compile:
        engines = compile_both(path, original, result, compilation.sm, stated, lambda s: tell(s, None, None))
    elif compiler is not None:
        tell("parse", None, None)
        engines = (_parsed(path, compiler, compilation.sm),) * 2
    found = result.report
    compat = {rule.id: rule for rule in load_rules(repairs.rules) if rule.stage == "compat"}
    beyond = beyond_compiler(original, target)
    lint = confirmed_lint(original, target.name, engines[0] if engines is not None else None)
    constructs = _constructs(original, found, compat)
    lint, constructs = _joined(lint if target.explicit else [], constructs)
    findings = [
        *_refused(unsupported(original, target), found, [one for one, _ in constructs]),
        *(
            finding("plugin", one.node, one.op, one.reason, one.advice)
            for one in reporting.plugin_nodes(original, target)
        ),
        *lint,
        *_runtime(found.runtime),
        *(_compiler(*engines, original, beyond, not stated.profiles, lint) if engines is not None else ()),
    ]
    measured = None
    known: dict[Need, Any] = {}  # what the user's own checks may need
    if asked.own:
        subject = subject_of(original, target.name)
        seen = seen_in(engines[0], subject) if engines is not None else None
        known = {"file": subject, "pairs": subject if target.explicit else None, "engine": seen}
    if job is not None:
        course = Calibrating.of(asked.calibration, (), asked.feeding)
        engine = engines[0] if engines is not None else None
        named = " ".join([_flags(data, asked.calibration.stats), *map(shlex.quote, asked.again)])
        evidence, problems = evidence_of(job, original, course, source, given, engine, named)
        known["plan"] = evidence
        of_data: list[Finding] = []
        if source is not None or given is not None:
            known["data"] = evidence
            of_data = found_by(checks_that_need("data"), evidence)
            measured = MeasuredForChecks(evidence.samples, len(evidence.tensors), evidence.own_pairs)
        findings = [*_without_coarse(findings, of_data), *problems, *of_data]
    findings += found_by_own(asked.own, known)
    return Checks(
        kind="checks",
        schema=2,
        onnxq=VERSION,
        model=found.model,
        target=found.target,
        opset=found.opset,
        ir_version=found.ir_version,
        compiler=compiler,
        engine=_tried(*engines, beyond) if engines is not None else None,
        findings=tuple(by_severity(_once_a_node(findings))),
        changes=found.changes,
        rejected=found.rejected,
        near_misses=found.near_misses,
        assumptions=found.assumptions,
        measured=measured,
    )


def _flags(data: DataSource | None, stats: str | os.PathLike[str] | None) -> str:
    """The flags that name data and statistics, for a command to paste."""
    words = []
    if data is not None or stats is None:
        words += ["--calib", os.fspath(data) if isinstance(data, str | os.PathLike) else "DATA"]
    if stats is not None:
        words += ["--stats", os.fspath(stats)]
    return shlex.join(words)


def _without_coarse(findings: Sequence[Finding], of_data: Sequence[Finding]) -> list[Finding]:
    """The findings without notes on quantized outputs of which the data show more."""
    shown = {one.tensor for one in of_data if one.check == "coarse-output"}
    return [one for one in findings if one.check != "quantized-output" or one.tensor not in shown]


def _parsed(model: Path, compiler: str, sm: int) -> trt.Engine:
    errors = tuple(trt.check_parse(model) or ())
    return trt.Engine("failed" if errors else "not-run", "", compiler, sm, errors=errors)


# --- what the target's table says -----------------------------------------------------------------

_Constructs = list[tuple[Finding, str]]
"""Findings about what a rule repairs, each with the feature that the rule makes up for."""


def _refused(refused: Sequence[NotTaken], report: Report, constructs: Sequence[Finding]) -> list[Finding]:
    """What the target does not take: each node once, with the advice of the rule that knows it."""
    stays = {entry.node for entry in report.unsupported}
    advice = {one.node: one.advice for one in constructs}
    found = []
    for entry in refused:
        removed = entry.advice if entry.node in stays else "onnxq sanitize removes it"
        known = advice.get(entry.node, removed)
        found.append(finding("unsupported", entry.node, entry.op, entry.reason, known))
    named = {entry.node for entry in refused}
    return found + [one for one in constructs if one.node not in named]


def _constructs(model: Model, report: Report, compat: Mapping[str, Rule]) -> _Constructs:
    """What the target does not take and a rule repairs, or would if its guard held."""
    nodes = _nodes(model)
    found: _Constructs = []
    for change in report.changes:
        rule = compat.get(change.rule)
        if rule is not None:
            advice = f"onnxq sanitize repairs it ({rule.id})"
            one = _construct("repairable", change, report.target, rule, nodes, advice)
            found.append((one, rule.lacks or ""))
    for miss in report.near_misses:
        rule = compat.get(miss.rule)
        if rule is not None:
            advice = f"{rule.id} would repair it, but {miss.reason}"
            one = _construct("near-miss", miss, report.target, rule, nodes, advice)
            found.append((one, rule.lacks or ""))
    return found


def _construct(
    check: str,
    entry: Change | NearMiss,
    target: str,
    rule: Rule,
    nodes: Mapping[str, Node],
    advice: str,
) -> Finding:
    node = nodes.get(entry.node)  # None where another rule made it
    return finding(
        check, entry.node, "" if node is None else node.op, _lack(target, rule, entry, node), advice
    )


def _nodes(model: Model) -> dict[str, Node]:
    return {str(raw.name): Node(model, raw) for graph in model.graphs() for raw in graph.nodes}


_NARROW = ("uint8", "int16", "uint16", "uint32", "uint64")
_OF_TYPES = ("asymmetric-quantization", "small-integers")
"""What a target lacks that has no tensors of those types inside of a graph."""


def _lack(target: str, rule: Rule, found: Change | NearMiss, node: Node | None) -> str:
    """What a rule repairs: what the target lacks, or the limits of it that the rule looked at."""
    if rule.lacks in _OF_TYPES and node is not None:
        given = (*node.inputs, *node.outputs)
        types = sorted({str(one.dtype) for one in given if one is not None}.intersection(_NARROW))
        if types:
            return f"it reads or gives {', '.join(types)}: {target} has no such tensors inside of a graph"
    if rule.lacks is not None:
        return f"{target} lacks {rule.lacks}"
    limits = ", ".join(f"{name} = {number:,}" for name, number in found.limits.items())
    return f"it is not within {target}'s limit {limits}" if limits else f"{target} does not take it as it is"


def _joined(lint: Sequence[Finding], constructs: _Constructs) -> tuple[list[Finding], _Constructs]:
    """A mistake that both the lint and a rule know, once: as the lint has it, with the rule's advice.

    What a rule repairs and the target takes without harm, as the lint knows, is a note.
    """
    advice = {(one.node, lacks): one.advice for one, lacks in constructs if lacks}
    told = set()
    merged = []
    for one in lint:
        lacks = CHECKS[one.check].lacks
        key = (one.node, lacks)
        if lacks and key in advice:
            told.add(key)
            one = dataclasses.replace(one, advice=advice[key])
        merged.append(one)
    features = {lacks for _, lacks in told}  # of which rules repair what other rules made, too
    rest = [
        (dataclasses.replace(one, severity="note") if lacks == "one-element-scales" else one, lacks)
        for one, lacks in constructs
        if (one.node, lacks) not in told and (one.op or lacks not in features)
    ]
    return merged, rest


# --- what onnxruntime and NVIDIA's compiler say ---------------------------------------------------


def _runtime(runtime: TakenByRuntime) -> list[Finding]:
    """That onnxruntime does not take the model."""
    if runtime.original is None:
        return []
    mended = runtime.result is None
    advice = "repairable: onnxq sanitize repairs it" if mended else "write the model otherwise"
    return [
        finding(
            "runtime", reason=f"onnxruntime does not take it: {runtime.original}", advice=advice,
            consequence="" if mended else "without it nothing is proved or calibrated",
        )
    ]  # fmt: skip


def _compiler(
    before: trt.Engine,
    after: trt.Engine,
    model: Model,
    beyond: Mapping[str, str],
    sizes_made_up: bool,
    lint: Sequence[Finding],
) -> list[Finding]:
    """What NVIDIA's parser or compiler says against the model, and whether its repair helps."""
    nodes = _nodes(model)
    advice = ""
    if before.status == "failed" and after.status == "compiled":
        advice = "repairable: onnxq sanitize repairs it"
    elif before.status == "failed" and not before.errors and (decided := deciding_inputs(model)):
        advice = "; ".join(decided)
    elif before.status == "failed" and not before.errors and sizes_made_up and before.profiles:
        advice = "nobody said how large dynamic inputs are: it may compile with --profile INPUT=MIN:OPT:MAX"
    found = _words(before, nodes, advice)
    if after.status == "failed" and after is not before:
        told = {one.reason for one in found}
        advice = "leave rules out with --skip, and report this" if before.status == "compiled" else ""
        more = [one for one in _words(after, nodes, advice) if one.reason not in told]
        found += [dataclasses.replace(one, reason=f"after sanitize, {one.reason}") for one in more]
    return [one for one in found if not _is_beyond(one, beyond) and not explains(lint, one.reason)]


def _words(engine: trt.Engine, nodes: Mapping[str, Node], advice: str) -> list[Finding]:
    """The findings of an engine that was not built."""
    if engine.status != "failed":
        return []
    found = [
        finding("parser", error.node, error.op, f"NVIDIA's parser: {error.message}", advice)
        for error in engine.errors
    ]
    if not found:
        node = trt.node_of(engine.reason)
        reason = f"NVIDIA's compiler: {trt.plain(engine.reason)}"
        at = (node, nodes[node].op) if node in nodes else ("", "")
        found.append(finding("compiler", *at, reason, advice))
    return found


def _is_beyond(one: Finding, beyond: Mapping[str, str]) -> bool:
    """Whether a finding is, or may be, about a node that only the compiler that is here does not take."""
    if one.node:
        return one.node in beyond
    return one.op in beyond.values() if one.op else bool(beyond)


def _tried(before: trt.Engine, after: trt.Engine, beyond: Mapping[str, str]) -> EngineTried:
    """What the compiler made of the model, for the report."""
    warnings = [] if after.errors else [text for text in after.warnings if text not in after.reason]
    return EngineTried(
        sm=before.sm,
        original=before.status,
        sanitized=after.status,
        profiles=after.profiles,
        warnings=tuple(dict.fromkeys(map(trt.plain, warnings))),
        beyond=beyond,
    )


def _once_a_node(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without what the compiler repeats of a node that is known not to be taken."""
    listed = list(findings)
    known = {one.node for one in listed if one.kind not in _REPEATS and one.severity == "error" and one.node}
    return [one for one in listed if one.kind not in _REPEATS or one.node not in known]
