"""A placement rule's examples: another plan, or a plan whose pairs change values on the grid, fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_compiled import NETS as COMPILED
from test_compiled import heads
from test_grid import NETS
from test_together import ATTENTION
from typer.testing import CliRunner

from onnxq.cli.app import app
from onnxq.graph.model import Model
from onnxq.graph.upgrade import upgrade
from onnxq.graph.view import Node
from onnxq.inspection.examples import check_example, check_rule
from onnxq.quant.grid import difference, plan_lines
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.rule.api import Fires, Float, Follow, Quantize, Rule, Skip, Skips
from onnxq.rule.examples import ExampleError
from onnxq.rule.load import load_rules

RULES = load_rules()
PRODUCT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[6, 4] q, float[4, 6] k) => (a) { a = MatMul (q, k) }"""
ALL = {**NETS, **{f"compiled {name}": net for name, net in COMPILED.items()}}


def test_a_users_rule_is_tested_with_its_plan(tmp_path: Path) -> None:
    right = 'plan="q -> qk:0; k -> qk:1; p -> pv:0; v -> pv:1; together: qk, pv")'
    text = ATTENTION.replace('Fires(_NET % "Softmax")', f'Fires(_NET % "Softmax", {right}')
    for wrong, says in (
        ("", "3 examples"),
        ("together: qk, pv", "its plan is 'q -> qk:0; k -> qk:1; p -> pv:0; v -> pv:1; together: qk, pv'"),
        ("v -> pv:1", "the example says"),
    ):
        (tmp_path / "quantize_attention.py").write_text(text.replace(wrong, "", 1) if wrong else text)
        ran = CliRunner().invoke(app, ["rules", "test", str(tmp_path)], env={"COLUMNS": "300"})
        assert ran.exit_code == bool(wrong), ran.output
        assert (says in " ".join(ran.output.split())) == bool(wrong), ran.output


def test_the_placement_rule_of_contributing(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2].joinpath("CONTRIBUTING.md").read_text("utf-8")
    (rule,) = [part.split("```")[0] for part in page.split("```python\n") if part.startswith("@place")]
    text = rule.replace("Skips(...)", f"Skips({PRODUCT!r})")
    assert text != rule
    (tmp_path / "own.py").write_text(f"from onnxq.rule import *\n\n{text}", "utf-8")
    (own,) = [one for one in load_rules((tmp_path,)) if one.id == "attention_products"]
    assert check_rule(own, RULES) == 2


def test_a_veto_where_nobody_asks_is_said_by_skips() -> None:
    veto = Rule("veto", lambda node: [Float(node, "too wide")], ("MatMul",), "place")
    with pytest.raises(ExampleError, match=r"say Skips\(model, because=...\)"):
        check_example(veto, Fires(PRODUCT), RULES)
    check_example(veto, Skips(PRODUCT, because="too wide"), RULES)


@pytest.mark.parametrize("name", ALL)
def test_the_plans_of_nets_change_nothing_on_the_grid(name: str) -> None:
    """Also where a Softmax or a sum of many products would leave the grid: each scale has its own values."""
    model = Model.open(ALL[name]())
    upgrade(model)
    plan = make_plan(model, RULES)
    assert plan.sites
    assert difference(model, plan) == ""


def altered(kind: str) -> Callable[[QuantPlan], QuantPlan]:
    def alter(plan: QuantPlan) -> QuantPlan:
        if kind == "axis":
            sites = [dataclasses.replace(s, axis=1 - s.axis) if s.axis is not None else s for s in plan.sites]
        else:  # the groups of two activations, swapped
            first, second = [s for s in plan.sites if s.kind == "activation"][:2]
            swap = {first.group: second.group, second.group: first.group}
            sites = [dataclasses.replace(s, group=swap.get(s.group, s.group)) for s in plan.sites]
        return dataclasses.replace(plan, sites=tuple(sites))

    return alter


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(
            (name, "axis")
            for name in ("conv 1-D", "conv 2-D", "gemm", "gemm transB", "matmul", "left constant")
        ),
        *((name, "group") for name in ("conv 2-D", "residual", "downsample", "compiled gemm")),
    ],
)
def test_a_wrong_plan_changes_values(name: str, kind: str) -> None:
    model = Model.open(ALL[name]())
    assert difference(model, altered(kind)(make_plan(model, RULES))) != ""


@pytest.mark.parametrize("op", ["AveragePool <kernel_shape = [1, 2]>", "Tanh", "Mul", "Pad"])
def test_an_operator_that_does_more_than_move_values_is_noticed(op: str) -> None:
    name = op.split(" ")[0]
    inputs = {"Mul": "x, f", "Pad": "x, p, f"}.get(name, "x")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 8, 8] x) => (y) <float f = {{3.1}}, int64[8] p = {{0, 0, 1, 1, 0, 0, 1, 1}}> {{
            [m] c = {op} ({inputs})  [l] y = Conv (c, w) }}"""

    def model() -> onnx.ModelProto:
        proto = onnx.parser.parse_model(text)
        weights = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16, 1, 1)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        return proto

    def follow(node: Node) -> list[Follow]:
        return [Follow(node, 0, "it moves values")]

    plan = "x -> m:0; c -> l:0; w axis 0 -> l:1; one scale: c, x"
    example = Fires(model, after=("quantize_weighted",), plan=plan)
    rule = Rule("follow", follow, (name,), "place", examples=(example,))
    with pytest.raises(ExampleError, match="grid proof fails: 'y' is another"):
        check_example(rule, example, RULES)


def test_what_an_example_must_state() -> None:
    (rule,) = [rule for rule in RULES if rule.id == "quantize_weighted"]
    fires = rule.examples[0]
    with pytest.raises(ExampleError, match=r"plan is 'x -> l:0; w axis 0 -> l:1', and .* says ''"):
        check_example(rule, dataclasses.replace(fires, plan=""), RULES)
    with pytest.raises(ExampleError, match="asks for"):
        check_example(rule, Skips(fires.model), RULES)
    idle = Rule("idle", lambda node: [], ("Conv",), "place", examples=(fires,))
    with pytest.raises(ExampleError, match="changes nothing"):
        check_example(idle, fires, RULES)
    with pytest.raises(ExampleError, match="at least one"):
        check_rule(idle, RULES)


def test_a_rule_may_skip_with_a_reason() -> None:
    def skip(node: Node) -> list[Quantize]:
        raise Skip("it is too long")

    rule = Rule("skip", skip, ("Softmax",), "place")
    check_example(rule, Skips(lambda: heads(gather=False), because="too long"), RULES)
    with pytest.raises(ExampleError, match=r"'too wide' is not among its reasons: .*too long"):
        check_example(rule, Skips(lambda: heads(gather=False), because="too wide"), RULES)


def test_each_node_that_an_example_names_has_the_reason() -> None:
    (rule,) = (rule for rule in RULES if rule.id == "int8_attention")
    example = next(one for one in rule.examples if isinstance(one, Skips) and one.nodes)
    check_example(rule, example, RULES)
    with pytest.raises(ExampleError, match=r"is not among its reasons of 'l': \[\]"):
        check_example(rule, dataclasses.replace(example, nodes=("one", "l")), RULES)


def test_the_lines_of_a_plan() -> None:
    model = Model.open(NETS["concats"]())
    lines = plan_lines(make_plan(model, RULES))
    assert "one scale: concat3, concat4, conv1, conv2, x" in lines
    assert "x -> concat4:1, conv1:0, conv2:0" in lines
