"""`onnxq check`: what is wrong with a model, and what onnxq would do about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxq.cli import calib_flags
from onnxq.cli import options as flags
from onnxq.cli.screen import Screen

if TYPE_CHECKING:
    from onnxq.graph.model import Model
    from onnxq.rule.api import Rule

# The targets for which the installed compiler speaks: those of the same generation.
_SAME_PARSER = ("tensorrt-11", "tensorrt-rtx")


def check(
    screen: Screen,
    model: flags.ModelPath,
    target: flags.TargetName = None,
    config: calib_flags.ConfigPath = None,
    shape: flags.Shapes = None,
    assume: flags.Assume = None,
    freeze: flags.Freeze = None,
    rules: flags.RuleFolders = None,
    enable: flags.Enable = None,
    skip: flags.Skip = None,
    prove: flags.ProveLevel = "when-possible",
) -> int:
    """Say what the target does not take; change nothing.

    Also says what sanitize would change, and finds mistakes in existing Q/DQ pairs. The exit code is 1
    where there are findings.
    """
    import onnxq
    from onnxq.cli.render import check_page
    from onnxq.graph.model import Model
    from onnxq.report import unsupported
    from onnxq.rule.load import load_rules
    from onnxq.run import trt
    from onnxq.target import load_target

    settings = calib_flags.Settings(config)
    target = settings.target(target)
    arguments = flags.edit_arguments(target, shape, assume, freeze, rules, enable, skip, prove)
    with screen.progress() as observe:
        report = onnxq.sanitize(model, **arguments, observe=observe).report
        original = Model.open(model)
        refused = unsupported(original, load_target(target))
        compiler = trt.installed() if target in _SAME_PARSER else None
        if compiler is not None:
            observe("parse", None, None)
    compat = {rule.id: rule for rule in load_rules(arguments["rules"]) if rule.stage == "compat"}
    findings = [
        *_refused(refused, report, _constructs(original, report, compat)),
        *_qdq(original),
        *(_parser(model) if compiler is not None else ()),
    ]
    document = {
        **{name: report[name] for name in ("schema", "onnxq", "model", "target", "opset", "ir_version")},
        "compiler": compiler,
        "findings": _once_a_node(findings),
        **{name: report[name] for name in ("changes", "rejected", "near_misses", "assumptions")},
    }
    settings.tell(document)
    screen.show(check_page(document))
    screen.document(document)
    return 1 if findings else 0


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
            reason = f"{report['target']} lacks {compat[change['rule']].lacks}"
            advice = f"onnxq sanitize repairs it ({change['rule']})"
            found.append(_finding("repairable", change["node"], ops, reason, advice))
    for miss in report["near_misses"]:
        if miss["rule"] in compat:
            reason = f"{report['target']} lacks {compat[miss['rule']].lacks}"
            advice = f"{miss['rule']} would repair it, but {miss['reason']}"
            found.append(_finding("near-miss", miss["node"], ops, reason, advice))
    return found


def _finding(kind: str, node: str, ops: dict[str, str], reason: str, advice: str) -> dict[str, str]:
    return {"kind": kind, "node": node, "op": ops.get(node, ""), "reason": reason, "advice": advice}


def _qdq(model: Model) -> list[dict[str, str]]:
    from onnxq.quant.lint import lint_qdq

    return [{"kind": "qdq", **dataclasses.asdict(finding)} for finding in lint_qdq(model)]


def _parser(model: Path) -> list[dict[str, str]]:
    from onnxq.run import trt

    return [
        {
            "kind": "parser",
            "node": e.node,
            "op": e.op,
            "reason": f"NVIDIA's parser: {e.message}",
            "advice": "",
        }
        for e in trt.check_parse(model) or ()
    ]


def _once_a_node(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """The findings without what the parser repeats of an operator known not to be taken."""
    known = {(f["node"], f["op"]) for f in findings if f["kind"] == "unsupported"}
    return [f for f in findings if f["kind"] != "parser" or (f["node"], f["op"]) not in known]
