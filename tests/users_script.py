"""A script of a user's, which is type-checked against the installed wheel and not run: every public name."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import onnxq

logging.getLogger("onnxq").setLevel(logging.INFO)


def quantized(model: Path, observe: onnxq.Observer) -> onnxq.Result:
    """Groups and single options, side by side."""
    return onnxq.quantize(
        model,
        "images",
        calibration=onnxq.Calibration(method="mse", samples=64),
        images=onnxq.ImageOptions(preset="imagenet"),
        feeding=onnxq.Feeding(skip_bad=True),
        details=onnxq.Details(layer_samples=8),
        format=onnxq.Format(keep_float=["head*"]),
        repairs=onnxq.Repairs(target="tensorrt-11"),
        inputs=onnxq.Inputs(assume={"N": 1}),
        compilation=onnxq.Compilation(device=89),
        goal=onnxq.Goal(min_sqnr=30.0),
        division=onnxq.Division(workers=2),
        runtime=onnxq.Runtime(ort_ops=["libops.so"]),
        accuracy=onnxq.AccuracyRepair(repair=("bias",)),
        layers=[onnxq.LayerRule(match=("conv*",), format="float")],
        observe=observe,
    )


def made(model: Path) -> list[Path]:
    """What is written, and where."""
    with onnxq.bar() as observe:
        result = quantized(model, observe)
    planned: onnxq.Planned = onnxq.plan(model, target="tensorrt-10")
    folder: onnxq.Bundle = onnxq.bundle(model, "images", "folder", references=2)
    print(folder.candidates[0].near_db + 1.0)
    decision: onnxq.BundleDecision = onnxq.decide("folder/results.json")
    print(decision.chosen, decision.candidates[0].engine.status)
    ranked: onnxq.Sensitivity = onnxq.sensitivity(model, "images", ranking=onnxq.Ranking(top=3))
    repaired: onnxq.Result = onnxq.sanitize(model)
    first: onnxq.FirstSettings = onnxq.init(model, "images", "onnxq.toml")
    pieces: onnxq.Pieces = onnxq.split(model, at=["a"])
    part: onnxq.Extract = onnxq.extract(model, end=["a"])
    page: onnxq.WrittenPage = onnxq.report("a.report.json")
    chain: onnxq.ChainRun = onnxq.run_pieces(pieces.save("pieces")[-1], "images")
    print(chain)
    written = [*result.save("a.onnx"), *planned.save("plan.toml"), *ranked.save("best.toml")]
    return [*written, *repaired.save("b.onnx"), *part.save("c.onnx"), Path(first.output), Path(page.page)]


def seen(model: Path) -> None:
    """What is looked at: the figures have types."""
    held: onnxq.ModelSummary = onnxq.describe(model)
    parameters: int = held.weights.bytes
    tensor: onnxq.TensorSummary = onnxq.describe_tensor(model, "w")
    shape: tuple[int | str | None, ...] | None = tensor.tensor.shape
    nodes: onnxq.ModelNodes = onnxq.inspect(model, ops=["Conv"])
    names: list[str] = [node.name for node in nodes.nodes]
    drawn: str = onnxq.draw(nodes)
    data: onnxq.DataSeen = onnxq.look(model, "images")
    least: list[float | None] = [one.min for one in data.inputs]
    table: onnxq.TensorTable = onnxq.statistics(model, "images", skip_bad=True)
    clipped: list[float | None] = [row.clipped for row in table.rows]
    weights: onnxq.WeightTable = onnxq.weights(model)
    levels: list[float | None] = [row.sqnr_db for row in weights.rows]
    memory: onnxq.ModelMemory = onnxq.memory(model)
    peak: int = memory.before.peak_bytes
    first: onnxq.StatsFile = onnxq.calibrate(model, "images", "0.stats.npz", shard=(1, 1))
    if shutil.which("ray"):  # on machines of yours
        with onnxq.StoredExecutor(onnxq.RayExecutor(num_cpus=1), "file:///mnt/shared") as executor:
            onnxq.calibrate(model, "images", "r.stats.npz", executor=executor)
    merged: onnxq.StatsFile = onnxq.merge_stats(["0.stats.npz"], "all.stats.npz")
    missing: list[int] = [*first.missing, *merged.missing]
    print(parameters, shape, names, drawn, least, clipped, levels, peak, missing, onnxq.__version__)


def judged(model: Path, other: Path) -> int:
    """What is judged: the exit code of a job in CI."""
    try:
        checks: onnxq.Checks = onnxq.check(model)
        reasons: list[str] = [finding.reason for finding in checks.findings]
        compared: onnxq.Comparison = onnxq.compare(model, other, "images", min_sqnr=30.0)
        nearness: list[float | None] = [output.sqnr_db for output in compared.accuracy]
        analysis: onnxq.Analysis = onnxq.analyze(model, other, "images")
        worst: float | None = analysis.rows[0].accumulated.sqnr_db
        runs: onnxq.RunDiff = onnxq.diff("a.json", "b.json", margins=onnxq.Margins(margin_db=0.2))
        worse: list[str] = [row.what for row in runs.differences if row.verdict == "worse"]
        engine: onnxq.EngineDocument = onnxq.engine(model, against_fp16=True)
        copied: int = 0 if engine.reading is None else engine.reading.totals.runtime_weights
        print(reasons, nearness, worst, worse, copied)
    except onnxq.UserError as error:
        hint: str = error.hint
        print(hint)
        return error.exit_code
    except onnxq.Fault as fault:
        reproducer: str | None = fault.reproducer
        print(reproducer)
    except onnxq.OnnxqError as error:
        return error.exit_code
    return checks.exit_code(strict=True) or int(not compared.met)


def known(message: str) -> list[str]:
    """Rules and what is known of messages."""
    rules: onnxq.RuleList = onnxq.list_rules()
    text: onnxq.RuleText = onnxq.explain_rule(rules.rules[0].id)
    found: onnxq.KnownOfMessage = onnxq.explain_message(message)
    tried: onnxq.RulesTried = onnxq.try_rules("my_rules")
    schemas: onnxq.SchemaList = onnxq.list_schemas()
    onnxq.schema(schemas.documents[0].kind)
    words: onnxq.Glossary = onnxq.explain_word("SQNR")
    seen: onnxq.SymptomTable = onnxq.symptoms("NaN")
    return [
        words.entries[0].text,
        seen.entries[0].repair,
        text.rule.doc,
        *(match.summary for match in found.known),
        str(tried.failed),
        onnxq.rules_page(),
    ]
