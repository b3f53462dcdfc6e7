"""What releases compute wrongly is named for those in its range, and what is near it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from lint_nets import MISTAKES, REDUCED, SAMPLED, SUMS, TANH, net, residual

import onnxq
from onnxq import targets
from onnxq.advice.causes import MISCOMPUTED
from onnxq.checks.lint import confirmed_lint
from onnxq.graph.model import Model
from onnxq.targets import NAMES, load_target, miscompute_table


def found(text: str, target: str) -> list[str]:
    return [one.check for one in confirmed_lint(Model.open(net(text)), target) if one.kind == "miscompile"]


@pytest.mark.parametrize(
    ("check", "wrong", "right"),
    [
        ("residual-view", ("11.2", "11.3", "tensorrt-11"), ("11.1", "10.16", "tensorrt-10")),
        ("cumsum-settings", ("10.8", "10.11", "11.1", "tensorrt-10"), ("10.7", "tensorrt-8.6")),
        ("if-transposed", ("11.1", "11.2", "tensorrt-11"), ("11.0", "10.13", "tensorrt-10")),
        ("deformable-samples", ("10.14", "11.1", "tensorrt-10", "tensorrt-11"), ("10.13", "tensorrt-8.6")),
        ("reduced-attention", ("10.11", "11.1", "tensorrt-10", "tensorrt-11"), ("10.10", "tensorrt-8.6")),
    ],
)
def test_each_is_named_for_the_releases_in_its_range(
    check: str, wrong: tuple[str, ...], right: tuple[str, ...]
) -> None:
    text, _ = MISTAKES[check]
    for target in wrong:
        (one,) = (one for one in confirmed_lint(Model.open(net(text)), target) if one.check == check)
        assert one.node
        row = miscompute_table()[check]
        assert row.thread in one.reason
        assert f"TensorRT {row.seen}" in one.reason
    for target in (*right, "tensorrt-rtx"):
        assert found(text, target) == []


def test_every_entry_is_of_a_check_and_says_whence_it_is() -> None:
    assert set(miscompute_table()) <= set(MISTAKES)
    for row in miscompute_table().values():
        assert row.thread.startswith("https://github.com/")
        assert row.since in row.seen
    assert all(
        load_target(name).miscomputes == frozenset() for name in NAMES if name.startswith("tensorrt-8")
    )


def test_a_screen_knows_their_notes_by_their_words() -> None:
    for check in miscompute_table():
        (one,) = confirmed_lint(Model.open(net(MISTAKES[check][0])), "tensorrt-11")
        assert MISCOMPUTED in one.reason


def test_from_the_release_that_is_right_on_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = replace(miscompute_table()["reduced-attention"], right="11.2")
    monkeypatch.setitem(miscompute_table(), "reduced-attention", fixed)
    targets._known.cache_clear()
    try:
        assert found(REDUCED.format(2, 2), "11.1") == ["reduced-attention"]
        assert found(REDUCED.format(2, 2), "11.2") == []
    finally:
        targets._known.cache_clear()


NEAR = {
    "a size that is fixed": MISTAKES["if-transposed"][0].replace("H, W", "8, 9"),
    "samples of what an activation gave": SAMPLED.replace("r = Transpose", "o = Transpose").replace(
        "i = Reshape (r, n1)", "i0 = Reshape (o, n1)  i = Sigmoid (i0)").format("MatMul (x, mf)"),
    "the nearest sample": MISTAKES["deformable-samples"][0].replace("Sample", 'Sample <mode = "nearest">'),
    "as many keys as tokens": REDUCED.format(2, 1),
    "a convolution of queries and keys": REDUCED.format(2, 2).replace("MatMul (x, k)", "MatMul (v, k)"),
    "sums of one axis, one of them exclusive": SUMS.format("a", "<exclusive = 1>"),
    "SiLU as a Sigmoid": residual("k2 = Sigmoid (k)  t0 = Mul (k, k2)"),
}  # fmt: skip


@pytest.mark.parametrize("what", NEAR)
def test_what_is_near_it_is_not_named(what: str) -> None:
    assert found(NEAR[what], "tensorrt-11") == []


def test_the_direction_of_a_sum_counts_as_its_axis() -> None:
    assert found(SUMS.format("a", "<reverse = 1>"), "10.11") == ["cumsum-settings"]


def test_check_tells_the_command_and_sanitize_repairs_what_can_be(tmp_path: Path) -> None:
    onnx.save(net(SUMS.format("b", "")), tmp_path / "x.onnx")
    (one,) = onnxq.check(tmp_path / "x.onnx", target="10.11", compile=False).findings
    assert one.severity == "warning"
    assert "onnxq sanitize" in (one.command or one.advice)
    result = onnxq.sanitize(tmp_path / "x.onnx", target="10.11")
    onnx.save(result.model, tmp_path / "y.onnx")
    assert [node.op_type for node in result.model.graph.node].count("CumSum") == 1
    assert [change.rule for change in result.report.changes] == ["cumsum_by_steps"]
    assert onnxq.check(tmp_path / "y.onnx", target="10.11", compile=False).findings == ()
    kept = onnxq.sanitize(tmp_path / "x.onnx", target="10.7")
    assert [node.op_type for node in kept.model.graph.node] == ["CumSum", "CumSum"]


def test_quantize_says_it(tmp_path: Path) -> None:
    onnx.save(net(REDUCED.format(2, 2)), tmp_path / "x.onnx")
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((2, 64, 32), np.float32)} for _ in range(4)]
    for target, told in (("10.11", 1), ("10.10", 0)):
        report = onnxq.quantize(tmp_path / "x.onnx", samples, target=target, compile=False).report
        assert len([note for note in report.notes if "issues/4853" in note]) == told


def test_a_table_of_the_user_s_says_it_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('like = "tensorrt-11"\nmiscomputes = []\n')
    assert found(residual(TANH), "tensorrt-11") == ["residual-view"]
    assert found(residual(TANH), str(tmp_path / "mine.toml")) == []
