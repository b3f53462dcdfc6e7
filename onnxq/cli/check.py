"""`onnxq check`: what is wrong with a model, and what onnxq would do about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.target import SAME_PARSER, Target, load_target

if TYPE_CHECKING:
    from onnxq.graph.model import Model
    from onnxq.rule.api import Rule
    from onnxq.run.trt import Engine


@takes(
    settings.Repairs, settings.Inputs, settings.Compilation, settings.Runtime,
    without=("allow_interface_changes", "fastest"), config=True,
)  # fmt: skip
def check(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    report: Annotated[
        Path | None, typer.Option("-o", "--report", metavar="FILE", help="Write all that is found, as JSON.")
    ] = None,
    force: flags.Force = False,
) -> int:
    """Say what the target does not take; change nothing.

    Also says what sanitize would change, and finds mistakes in existing Q/DQ pairs. Where NVIDIA's compiler
    is installed, and speaks for the target, the model is compiled as it is and as sanitize would write it.
    The exit code is 1 where there are findings.
    """
    from onnxq.cli.pages.check import check_page
    from onnxq.emit import files
    from onnxq.graph.model import Model
    from onnxq.pipeline import sanitize_any
    from onnxq.pipeline.engines import Statements, compile_both
    from onnxq.report import unsupported
    from onnxq.rule.load import load_rules
    from onnxq.run import trt

    repairs, inputs = chosen.group(settings.Repairs), chosen.group(settings.Inputs)
    compilation = chosen.group(settings.Compilation)
    target, sm = repairs.target, compilation.sm
    stated = Statements(inputs.shapes or {}, inputs.assume or {}, compilation.profiles or {})
    if report is not None:
        files.check_output(report, model, force=force, record=report)
    compiler = trt.installed() if target in SAME_PARSER else None
    engines = None
    with screen.progress() as observe:
        result = sanitize_any(model, repairs, inputs, observe)
        original = Model.open(model)
        refused = unsupported(original, load_target(target))
        if compiler is not None and compilation.compile:
            engines = compile_both(
                model, original, result, sm, stated, lambda step: observe(step, None, None)
            )
        elif compiler is not None:
            observe("parse", None, None)
            errors = trt.check_parse(model) or ()
            engines = (
                trt.Engine("failed" if errors else "not-run", "", compiler, sm, errors=tuple(errors)),
            ) * 2
    found = result.report
    compat = {rule.id: rule for rule in load_rules(repairs.rules) if rule.stage == "compat"}
    beyond = _beyond(original, load_target(target))
    findings = [
        *_refused(refused, found, _constructs(original, found, compat)),
        *_qdq(original),
        *_runtime(found["runtime"]),
        *(_compiler(*engines, original, beyond, not stated.profiles) if engines is not None else ()),
    ]
    document = {
        **{name: found[name] for name in ("schema", "onnxq", "model", "target", "opset", "ir_version")},
        "compiler": compiler,
        "engine": _engine(*engines, beyond) if engines is not None else None,
        "findings": _once_a_node(findings),
        **{name: found[name] for name in ("changes", "rejected", "near_misses", "assumptions")},
    }
    chosen.tell(document)
    if report is not None:
        files.save_models(report.parent, {}, None, {report.name: document})
    screen.show(check_page(document, report))
    screen.document(document)
    return 1 if document["findings"] else 0


def _refused(
    refused: list[dict[str, str]], report: dict[str, Any], constructs: list[dict[str, str]]
) -> list[dict[str, str]]:
    """What the target does not take: each node once, with the advice of the rule that knows it."""
    stays = {entry["node"] for entry in report["unsupported"]}
    advice = {finding["node"]: finding["advice"] for finding in constructs}
    found = []
    for entry in refused:
        removed = {} if entry["node"] in stays else {"advice": "onnxq sanitize removes it"}
        known = {"advice": advice[entry["node"]]} if entry["node"] in advice else removed
        found.append({"kind": "unsupported", **entry, **known})
    named = {entry["node"] for entry in refused}
    return found + [finding for finding in constructs if finding["node"] not in named]


def _constructs(model: Model, report: dict[str, Any], compat: dict[str, Rule]) -> list[dict[str, str]]:
    """What the target does not take and a rule repairs, or would if its guard held."""
    ops = {node.name: str(node.op) for graph in model.graphs() for node in graph.nodes}
    found = []
    for change in report["changes"]:
        if change["rule"] in compat:
            reason = _lack(report["target"], compat[change["rule"]], change)
            advice = f"onnxq sanitize repairs it ({change['rule']})"
            found.append(_finding("repairable", change["node"], ops, reason, advice))
    for miss in report["near_misses"]:
        if miss["rule"] in compat:
            reason = _lack(report["target"], compat[miss["rule"]], miss)
            advice = f"{miss['rule']} would repair it, but {miss['reason']}"
            found.append(_finding("near-miss", miss["node"], ops, reason, advice))
    return found


def _lack(target: str, rule: Rule, found: dict[str, Any]) -> str:
    """What a rule repairs: what the target lacks, or the limits of it that the rule looked at."""
    if rule.lacks is not None:
        return f"{target} lacks {rule.lacks}"
    limits = ", ".join(f"{name} = {number:,}" for name, number in found.get("limits", {}).items())
    return f"it is not within {target}'s limit {limits}" if limits else f"{target} does not take it as it is"


def _finding(kind: str, node: str, ops: dict[str, str], reason: str, advice: str) -> dict[str, str]:
    return {"kind": kind, "node": node, "op": ops.get(node, ""), "reason": reason, "advice": advice}


def _qdq(model: Model) -> list[dict[str, str]]:
    from onnxq.quant.lint import lint_qdq

    return [{"kind": "qdq", **dataclasses.asdict(finding)} for finding in lint_qdq(model)]


def _beyond(model: Model, target: Target) -> dict[str, str]:
    """The nodes that the target takes and the compiler that is here, TensorRT-RTX, does not."""
    from onnxq.report import unsupported

    own = {entry["node"] for entry in unsupported(model, target)}
    here = unsupported(model, load_target("tensorrt-rtx"))
    return {entry["node"]: entry["op"] for entry in here if entry["node"] and entry["node"] not in own}


def _runtime(runtime: dict[str, str | None]) -> list[dict[str, str]]:
    """That onnxruntime does not take the model."""
    if runtime["original"] is None:
        return []
    mended = runtime["result"] is None
    advice = (
        "repairable: onnxq sanitize repairs it" if mended else "without it nothing is proved or calibrated"
    )
    reason = f"onnxruntime does not take it: {runtime['original']}"
    return [{"kind": "runtime", "node": "", "op": "", "reason": reason, "advice": advice}]


def _compiler(
    before: Engine, after: Engine, model: Model, beyond: dict[str, str], sizes_made_up: bool
) -> list[dict[str, str]]:
    """What NVIDIA's parser or compiler says against the model, and whether its repair helps."""
    from onnxq.report import deciding_inputs

    ops = {str(node.name): str(node.op) for graph in model.graphs() for node in graph.nodes}
    advice = ""
    if before.status == "failed" and after.status == "compiled":
        advice = "repairable: onnxq sanitize repairs it"
    elif before.status == "failed" and not before.errors and (decided := deciding_inputs(model)):
        advice = "; ".join(decided)
    elif before.status == "failed" and not before.errors and sizes_made_up and before.profiles:
        advice = "nobody said how large dynamic inputs are: it may compile with --profile INPUT=MIN:OPT:MAX"
    found = _words(before, ops, advice)
    if after.status == "failed" and after is not before:
        told = {finding["reason"] for finding in found}
        advice = "leave rules out with --skip, and report this" if before.status == "compiled" else ""
        more = [finding for finding in _words(after, ops, advice) if finding["reason"] not in told]
        found += [{**finding, "reason": f"after sanitize, {finding['reason']}"} for finding in more]
    return [finding for finding in found if not _is_beyond(finding, beyond)]


def _words(engine: Engine, ops: dict[str, str], advice: str) -> list[dict[str, str]]:
    """The findings of an engine that was not built."""
    from onnxq.run import trt

    if engine.status != "failed":
        return []
    found = []
    for error in engine.errors:
        reason = f"NVIDIA's parser: {error.message}"
        found.append(
            {"kind": "parser", "node": error.node, "op": error.op, "reason": reason, "advice": advice}
        )
    if not found:
        node = trt.node_of(engine.reason)
        reason = f"NVIDIA's compiler: {trt.plain(engine.reason)}"
        found.append(_finding("compiler", node if node in ops else "", ops, reason, advice))
    return found


def _is_beyond(finding: dict[str, str], beyond: dict[str, str]) -> bool:
    """Whether a finding is, or may be, about a node that only the compiler that is here does not take."""
    if finding["node"]:
        return finding["node"] in beyond
    return finding["op"] in beyond.values() if finding["op"] else bool(beyond)


def _engine(before: Engine, after: Engine, beyond: dict[str, str]) -> dict[str, Any]:
    """What the compiler made of the model, for the report."""
    from onnxq.run import trt

    warnings = [] if after.errors else [text for text in after.warnings if text not in after.reason]
    return {
        "sm": before.sm,
        "original": before.status,
        "sanitized": after.status,
        "profiles": {name: list(map(list, shapes)) for name, shapes in after.profiles.items()},
        "warnings": list(dict.fromkeys(map(trt.plain, warnings))),
        "beyond": beyond,
    }


def _once_a_node(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """The findings without what the compiler repeats of a node that is known not to be taken."""
    repeats = ("parser", "compiler")
    known = {f["node"] for f in findings if f["kind"] not in (*repeats, "qdq") and f["node"]}
    return [f for f in findings if f["kind"] not in repeats or f["node"] not in known]
