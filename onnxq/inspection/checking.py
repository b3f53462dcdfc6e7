"""`check`: what the target, NVIDIA's compiler and the checks say against a model, as one list of findings."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import quote

from onnxq.base.errors import UserError
from onnxq.base.escapes import visible
from onnxq.base.heap import uncollected
from onnxq.base.plain import DocumentPart, to_json
from onnxq.base.progress import Observer, told
from onnxq.base.reason import noted
from onnxq.base.shown import Shown, Words, count
from onnxq.base.version import VERSION
from onnxq.checks import Check, Need
from onnxq.checks.answers import RuntimeAnswer, TargetAnswer, repairs_of
from onnxq.checks.command import Checked, commanded
from onnxq.checks.each.dla import OnDla
from onnxq.checks.finding import SEVERITIES, Finding, by_severity, exit_code
from onnxq.checks.lint import advised, confirmed_lint, explains, seen_in
from onnxq.checks.load import CHECKS, checks_that_need, found_by
from onnxq.checks.own import found_by_own, load_own
from onnxq.checks.subject import subject_of
from onnxq.data.sources import DataSource
from onnxq.documents.report import Report
from onnxq.graph.cut import cut
from onnxq.graph.model import Model
from onnxq.graph.named import named
from onnxq.inspection.engines import Statements, compile_both
from onnxq.inspection.evidence import evidence_of
from onnxq.options.call_options import CheckOptions
from onnxq.options.command_line import Takes, kept
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import Compilation, Repairs
from onnxq.pipeline.calibration import Calibrating, Given
from onnxq.pipeline.compiler import check_device
from onnxq.pipeline.job import Job
from onnxq.pipeline.not_taken import (
    beyond_compiler,
    deciding_inputs,
    own_functions,
    plugin_nodes,
    unsupported,
)
from onnxq.pipeline.repairing import sanitize_any
from onnxq.pipeline.result import Result
from onnxq.pipeline.stated_sizes import refuse_sizes
from onnxq.rewrite.changes import Assumption, Change, NearMiss
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt
from onnxq.targets import DEFAULT, Target, load_target

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
        schema: 3.
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
        engine = self.not_known or f"NVIDIA's compiler: {self.engine.original}"  # type: ignore[union-attr]
        rows = [(one.severity, one.node, one.op, one.reason, one.advice) for one in bad[:_ROWS]]
        none = "no finding" if self.not_known else "nothing is wrong"
        head = f"check of {self.model}, for {self.target}: {'findings' if bad else none}"
        return Words(head, (*each, engine), ("severity", "node", "operator", "what", "do"), rows)

    @property
    def not_known(self) -> str:
        """What neither the target's table nor a compiler tells, in a sentence; "" where one was asked."""
        title = load_target(self.target).title
        return "" if self.engine is not None else noted("not-compiled", target=title)

    def sarif(self) -> dict[str, Any]:
        """The findings as a SARIF 2.1.0 log, for code scanning."""
        return sarif(self.findings, Path(self.model or "model.onnx"))

    def annotations(self) -> list[str]:
        """The findings as lines that GitHub Actions shows beside the file."""
        return list(annotated(self.findings, Path(self.model or "model.onnx")))

    def exit_code(self, *, strict: bool = False) -> int:
        """1 where there is an error, or with `strict` a warning; notes never count."""
        return exit_code(self.findings, strict=strict)


@takes_options
def check(
    model: str | Path,
    data: DataSource | None = None,
    *,
    checks: Sequence[str | os.PathLike[str]] = (),
    again: Sequence[str] = (),
    observe: Observer | None = None,
    **options: Unpack[CheckOptions],
) -> Checks:
    """What is wrong with a model, and what onnxq would do about it; changes nothing.

    Args:
        model: the file.
        data: as in `quantize`; with it, or with `stats`, the checks on data run.
        checks: checks of the user's, `FILE.py` or `FILE.py:FUNCTION`: each `onnxq.checks.check` is called
            with what it needs, a plain function with an `onnxq.checks.Evidence`, and gives findings.
        again: flags that an advised command line is to repeat, beside those of the data.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `target="tensorrt-8.6"`. The
            model is compiled where NVIDIA's compiler is installed and speaks for the target.

    Raises:
        UserError: the model or an option cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    groups = Options.of("check", options)
    own = [one for spec in checks for one in load_own(spec)]
    stats, given = groups.calibration.stats, None
    if stats is not None:
        given = Given.read(stats, partial=groups.calibration.partial)
    asked = _Asked(data, groups, given, own, tuple(again))
    with ort.running(groups.runtime):
        return _check(Path(model), asked, told(observe))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for, what the checks on data are given, and those of the user."""

    data: DataSource | None
    groups: Options
    given: Given | None
    own: Sequence[Check]
    again: tuple[str, ...] = ()

    @property
    def plans(self) -> bool:
        """Whether a plan is asked for, and what is measured of its tensors."""
        return self.measures or any(one.needs == "plan" for one in self.own)

    @property
    def measures(self) -> bool:
        """Whether there is something to measure, or measured."""
        return self.data is not None or self.given is not None

    @property
    def place(self) -> str:
        """Where the data are, "DATA" where that has no name."""
        named = isinstance(self.data, str | os.PathLike)
        return os.fspath(self.data) if named else "DATA"  # type: ignore[arg-type]

    @property
    def flags(self) -> str:
        """The flags that name data and statistics, and those to repeat, for a command to paste."""
        words = []
        if self.data is not None or self.groups.calibration.stats is None:
            words += ["--calib", self.place]
        if self.groups.calibration.stats is not None:
            words += ["--stats", os.fspath(self.groups.calibration.stats)]
        return shlex.join([*words, *self.again])

    def checked(self, model: Model, path: Path) -> Checked:
        """What is checked, for commands."""
        target, parts = os.fspath(self.groups.repairs.target), list[list[str]]()
        for word in self.again:
            if word.startswith("--"):
                parts.append([])
            parts[-1].append(word)
        target = "" if target == DEFAULT else target
        feeding = shlex.join(kept(parts, "data"))
        compiles = (
            trt.installed() is not None
            and load_target(self.groups.repairs.target).is_compiled_here
            and all(one.dtype is not None for one in model.tensors().values())  # else no cut has types
        )
        return Checked(str(path), target, self.place, self.flags, feeding, _takes(model), compiles)


def _takes(model: Model) -> Takes:
    """What commands may name of a model: nodes and tensors, and operators at which it can be cut."""

    @cache
    def cuts(op: str) -> bool:
        try:
            return bool(cut(model, (), (op,), ort.output_types))
        except UserError:
            return False

    return {**named(model), "--at-op": cuts}


_Engines = tuple[trt.Engine, trt.Engine] | None
"""What the compiler made of the model and of its repair; None where it was not asked."""


def _check(path: Path, asked: _Asked, tell: Observer) -> Checks:
    groups, data, given = asked.groups, asked.data, asked.given
    repairs, inputs, compilation = groups.repairs, groups.inputs, groups.compilation
    target = load_target(repairs.target).with_plugins(repairs.plugin)
    compiler = trt.installed() if target.is_compiled_here else None
    check_device(compilation, target)
    job, source = None, None
    if asked.plans:
        with uncollected():
            job = Job.of(path, replace(repairs, pairs="keep"), inputs, tell)
            if data is not None:
                job, source = job.with_data(data, groups.images, groups.feeding)
            job = job.sanitized()
            refuse_sizes(job)
            result = job.result(job.model.to_proto())
    else:
        result = sanitize_any(path, repairs, inputs, tell)
    report = result.report
    original = Model.open(path)
    original.set_target(target)
    engines, sm = None, compilation.sm(target)
    if compiler is not None and compilation.compile:
        stated = Statements(inputs.shapes or {}, inputs.assume or {}, inputs.profiles or {})
        engines = compile_both(path, original, result, sm, stated, lambda s: tell(s, None, None))
    elif compiler is not None:
        tell("parse", None, None)
        engines = (_parsed(path, compiler, sm),) * 2
    engine = engines[0] if engines is not None else None
    beyond = beyond_compiler(original, target)
    findings = _of_file(original, target, report, engines, beyond, repairs, sizes_made_up=not inputs.profiles)
    findings += _of_dla(result, compilation, target)
    subjects = _known(original, target, engine) if asked.own else {}  # what the user's own checks may need
    measured = None
    if job is not None:
        calibrating = Calibrating.of(groups.calibration, (), groups.feeding)
        evidence = evidence_of(job, original, calibrating, source, given, engine, asked.flags)
        subjects["plan"] = evidence
        if asked.measures:
            subjects["data"] = evidence
            of_data = found_by(checks_that_need("data"), evidence)
            findings = [*_without_coarse(findings, of_data), *of_data]
            measured = MeasuredForChecks(evidence.samples, len(evidence.tensors), evidence.own_pairs)
    findings += found_by_own(asked.own, subjects)
    return Checks(
        kind="checks",
        schema=3,
        onnxq=VERSION,
        model=report.model,
        target=report.target,
        opset=report.opset,
        ir_version=report.ir_version,
        compiler=compiler,
        engine=_tried(*engines, beyond) if engines is not None else None,
        findings=tuple(commanded(by_severity(_once_a_node(findings)), asked.checked(original, path))),
        changes=report.changes,
        rejected=report.rejected,
        near_misses=report.near_misses,
        assumptions=report.assumptions,
        measured=measured,
    )


def _parsed(model: Path, compiler: str, sm: int) -> trt.Engine:
    errors = tuple(trt.check_parse(model) or ())
    return trt.Engine("failed" if errors else "not-run", "", compiler, sm, errors=errors)


def _of_file(
    model: Model,
    target: Target,
    report: Report,
    engines: _Engines,
    beyond: Mapping[str, str],
    repairs: Repairs,
    *,
    sizes_made_up: bool,
) -> list[Finding]:
    """What is found without data: by the table of the target, in the file, and by what may run it."""
    lint = confirmed_lint(model, target.name, engines[0] if engines is not None else None)
    repaired = repairs_of(model, report, load_rules(repairs.rules))
    lint, repaired = advised(lint if target.explicit else [], repaired)
    refused = [*unsupported(model, target), *own_functions(model, target)]
    compiled = engines is not None and engines[0].status == "compiled"
    of_target = TargetAnswer(refused, plugin_nodes(model, target), repaired, report, compiled)
    failed = engines is not None and engines[0].status == "failed"
    deciding = deciding_inputs(model) if failed else ()
    of_runtimes = RuntimeAnswer(model, report.runtime, engines, beyond, deciding, sizes_made_up)
    of_runtime = found_by(checks_that_need("runtime"), of_runtimes)
    return [
        *found_by(checks_that_need("target"), of_target),
        *lint,
        *(one for one in of_runtime if one.kind not in _REPEATS or not explains(lint, one.reason)),
    ]


def _of_dla(result: Result, compilation: Compilation, target: Target) -> list[Finding]:
    """What runs on the GPU of a model that is to run on DLA."""
    if not compilation.dla or compilation.stated is None:
        return []
    on = OnDla(Model.open(result.model, stripped=True), compilation.stated, target)
    return found_by(checks_that_need("dla"), on)


def _known(model: Model, target: Target, engine: trt.Engine | None) -> dict[Need, Any]:
    """What checks of the file and of the engine need."""
    subject = subject_of(model, target.name)
    return {
        "file": subject,
        "pairs": subject if target.explicit else None,
        "engine": seen_in(engine, subject),
    }


def _without_coarse(findings: Sequence[Finding], of_data: Sequence[Finding]) -> list[Finding]:
    """The findings without notes on quantized outputs of which the data show more."""
    shown = {one.tensor for one in of_data if one.check == "coarse-output"}
    return [one for one in findings if one.check != "quantized-output" or one.tensor not in shown]


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
    refused = {
        one.node for one in listed if one.kind not in _REPEATS and one.severity == "error" and one.node
    }
    return [one for one in listed if one.kind not in _REPEATS or one.node not in refused]


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PROPERTIES = ("op", "tensor", "consequence", "advice", "command", "confirmed", "db")


def sarif(findings: Sequence[Finding], model: Path) -> dict[str, Any]:
    """A SARIF log of one run.

    Args:
        findings: the findings.
        model: the file that they are of; relative paths are to the folder that one is in.
    """
    rules = list(dict.fromkeys(one.check for one in findings))
    place = {"uri": model.as_uri() if model.is_absolute() else quote(os.fsencode(model.as_posix()))}
    driver = {"name": "onnxq", "version": VERSION, "rules": [_rule(name) for name in rules]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {
            "id": f"onnxq/{place['uri']}/"
        },  # GitHub keeps the logs of several models apart
        "artifacts": [{"location": place, "roles": ["analysisTarget"]}],
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(one, rules.index(one.check), place) for one in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def in_words(finding: Finding) -> str:
    """A finding in a line: where, what is wrong, what comes of it, what to do."""
    about = ": ".join(filter(None, (finding.op, finding.node)))
    wrong = "; ".join(filter(None, (finding.reason, finding.consequence)))
    text = f"{wrong} -> {finding.advice}" if finding.advice else wrong
    return f"{about}: {text}" if about else text


def _rule(name: str) -> dict[str, Any]:
    check = CHECKS.get(name)  # None of the user's own
    if check is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": check.what},
        "defaultConfiguration": {"level": check.severity},
        "help": {"text": f"onnxq help symptoms {name}"},
    }


def _result(finding: Finding, rule: int, place: dict[str, str]) -> dict[str, Any]:
    where: dict[str, Any] = {"physicalLocation": {"artifactLocation": place, "region": {"startLine": 1}}}
    if finding.node:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.node, "kind": "node"}]
    same = "\0".join((finding.check, finding.node, finding.tensor))
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": visible(in_words(finding), kept="\n")},
        "locations": [where],
        "partialFingerprints": {"primaryLocationLineHash": hashlib.sha256(same.encode()).hexdigest()[:16]},
        "properties": {name: to_json(getattr(finding, name)) for name in _PROPERTIES},
    }


_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
_IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_TEXT, ":": "%3A", ",": "%2C"}


def annotated(findings: Sequence[Finding], model: Path) -> Iterator[str]:
    """A line for each finding.

    Args:
        findings: the findings.
        model: the file that they are of.
    """
    for one in findings:
        text = visible("\n".join(filter(None, (in_words(one), one.command))), kept="\n")
        title = _escaped(visible(f"onnxq {one.check}"), _IN_PROPERTY)
        file = _escaped(visible(model.as_posix()), _IN_PROPERTY)
        yield f"::{_LEVELS[one.severity]} file={file},title={title}::{_escaped(text, _IN_TEXT)}"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(char, char) for char in text)
