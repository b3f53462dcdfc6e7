"""A report of any number of layers, and the analysis that belongs to it."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any


def synthetic(count: int, names: list[str] | None = None) -> dict[str, Any]:
    """The report of a chain of Convs; the names are those of the first ones."""
    called = [*(names or []), *(f"/stage{i // 50}/block{i}/Conv" for i in range(len(names or []), count))]
    tensors = [f"{name}_input" for name in called]
    return {
        "schema": 1, "onnxq": "0.1.0", "model": "net.onnx", "output": "net.int8.onnx", "target": "tensorrt-11",
        "sha256": "5ed9" * 16, "nodes": 3 * count, "nodes_before": count, "seconds": 12.5,
        "assumptions": [{"flag": "--assume", "name": "N", "value": 1, "why": "stated"}],
        "changes": [
            {"rule": "fold_batchnorm", "stage": "fuse", "node": called[0], "removed": [called[0]],
             "added": [called[1]], "proof": {"verdict": "exact", "inputs": 39, "max_abs": 0.0, "why": ""},
             "sketch": {"before": [
                 {"name": called[0], "op": "Conv", "inputs": [tensors[0]], "outputs": ["c"]},
                 {"name": "bn", "op": "BatchNormalization", "inputs": ["c"], "outputs": [tensors[1]]}],
                 "after": [{"name": called[1], "op": "Conv", "inputs": [tensors[0]], "outputs": [tensors[1]]}]}}
        ],
        "near_misses": [{"node": called[1], "rule": "fold_scale", "reason": "its scale is an input"}],
        "whole_model": [{"stage": "fuse", "verdict": "close", "max_abs": 1e-6, "sqnr_db": 120.0, "why": ""}],
        "unsupported": [{"node": called[2], "op": "Einsum", "reason": "TensorRT does not take it", "advice": "cut"}],
        "size": {"before": 4_000_000, "after": 1_000_000},
        "outline": [
            {"name": name, "op": "Conv", "tensor": f"{name}_out", "dtype": "float32", "shape": "1x64x56x56",
             "weights": "64x64x3x3", "reads": [at - 1] if at else []}
            for at, name in enumerate(called)
        ],
        "plan": {
            "sites": [
                {"tensor": tensor, "kind": "activation", "readers": [{"node": name, "input": 0}], "axis": None,
                 "group": at // 2, "because": "Conv runs in int8"}
                for at, (name, tensor) in enumerate(zip(called, tensors, strict=True))
            ],
            "groups": [
                {"id": at // 2, "tensors": tensors[at : at + 2], "sources": tensors[at : at + 1],
                 "reasons": ["inputs of one Concat (/cat)"]} for at in range(0, count - 1, 2)
            ],
            "kept_float": [{"node": called[3], "op": "Conv", "because": "depthwise: int8 gains nothing", "code": "rule"}],
            "layers": [
                {"node": name, "op": "Conv", "macs": 115_605_504, "weights": True, "eligible": True,
                 "format": "float" if at == 3 else "int8"} for at, name in enumerate(called)
            ],
            "int8_share_of_eligible_macs": 0.98, "int8_share_of_all_macs": 0.95,
        },
        "weight_scales": {},
        "calibration": {
            "method": "auto: mse", "samples": 80,
            "data": {"lines": ["80 images in calib"], "doubts": [
                {"kind": "range", "input": "x", "text": "pixels are fed from 0 to 255", "hint": "--scale"}]},
            "scales": dict.fromkeys(tensors, 0.03),
            "ranges": {tensor: [-1.0, 8.0] for tensor in tensors},
            "thresholds": {t: {"amax": 4.0 if t == tensors[4] else 7.5, "because": "mse", "code": "method"}
                           for t in tensors},
            "statistics": {tensor: {"values": 9, "mean": 0.1, "variance": 1.0} for tensor in tensors},
            "histograms": {t: {"top": 8.0, "counts": " ".join(str(i * 37 % 90_000) for i in range(64))}
                           for t in tensors},
        },
        "accuracy": [{"output": "y", "sqnr_db": 30.2, "cosine": 0.999, "max_abs": 0.1, "max_ref": 4, "top1": 0.99,
                      "nonfinite": 0}],
        "about_mean": {"sqnr_about_mean_db": 29.5, "worst_output": "y", "worst_output_db": 29.5, "samples": 16,
                       "outputs": [{"output": "y", "sqnr_about_mean_db": 29.5}]},
        "goal": {"gates": [{"kind": "sqnr", "what": "SQNR about the mean", "of": "", "goal": 31, "measured": 29.5,
                            "met": False}],
                 "scores": None,
                 "search": {"predicted_sqnr_db": 28.5, "noise": {
                     "kinds": [{"name": "weight", "kind": "", "layers": [], "alone_db": 41.0, "share": 0.3},
                               {"name": "activation", "kind": "", "layers": [], "alone_db": 30.0, "share": 0.7}],
                     "sources": [{"name": tensors[4], "kind": "activation", "layers": [called[4]], "alone_db": 31.5,
                                  "share": 0.65}],
                     "layers": [{"name": called[7], "kind": "", "layers": [called[7]], "alone_db": 55.5, "share": 0.1}]},
                     "float": [{"node": called[5], "gain_db": 1.5, "cost": 1e6}],
                            "trials": [{"float": [called[5]], "cost": 1e6, "predicted_sqnr_db": 29.9,
                                        "measured": 29.4}]}},
        "repair": {"method": "judged on samples", "steps": [
            {"step": "bias", "verdict": "kept", "why": "gains", "before_db": 28.0, "after_db": 29.5, "runs": 9,
             "changed": {"biases": 4}}]},
        "body": {"type": "fp16", "because": "typed", "outputs": [
            {"output": "y", "int8_db": 30.5, "body_db": 62.0, "together_db": 30.2}]},
        "engine": {
            "status": "compiled", "compiler": "tensorrt-rtx 1.7", "sm": 89, "planned": count, "int8": count - 1,
            "not_int8": [called[6]],
            "layers": [
                {"name": f"kernel_{at}", "kind": "correlation", "precision": "fp16" if at == 6 else "int8",
                 "inputs": [{"name": f"t{at}", "dtype": "int8", "shape": [1, 64, 56, 56]}],
                 "constants": [{"name": f"c{at}", "dtype": "int8", "shape": [64, 64, 3, 3]}],
                 "outputs": [{"name": f"t{at + 1}", "dtype": "int8", "shape": [1, 64, 56, 56]}],
                 "nodes": [name, f"{name}_relu"]}
                for at, name in enumerate(called)
            ],
        },
        "verdict": {"form": "merged", "merged": {
            "fp16": {"moved_mb": 4.0, "weights_mb": 1.0, "kernels": 14},
            "int8": {"moved_mb": 2.0, "weights_mb": 0.5, "kernels": 12, "conversions": 3,
                     "macs": {"int8": 980, "fp16": 20}}},
            "built": {"int8": {"moved_mb": 5.0}}, "assumptions": ["times are estimates"]},
        "files": ["net.int8.onnx", "net.int8.report.json"], "commands": ["trtexec --onnx=net.int8.onnx"],
        "notes": ["nothing else"], "phases": {"load": 0.1, "calibrate": 9.0},
    }  # fmt: skip


def analysis_of(report: dict[str, Any]) -> dict[str, Any]:
    """What `analyze --json` says of it: the third layer is the worst, and its weights are to blame."""
    rows = [
        {"layer": layer["node"], "op": "Conv", "place": at, "isolated": {"sqnr_db": 12.0 if at == 2 else 40.0},
         "accumulated": {"sqnr_db": 45.0 - 10.0 * at / len(report["plan"]["layers"])}, "predicted_db": 33.0,
         "causes": [{"code": "weights", "text": "weights are 9 steps from those of A"}] if at == 2 else []}
        for at, layer in enumerate(report["plan"]["layers"])
    ]  # fmt: skip
    worst = {"sample": 7, "where": "calib/7.png", "sqnr_db": 18.5, "outputs": [
        {"output": "y", "shape": [1, 10], "argmax": [3, 5], "values": [{"index": [0, 3], "a": 1.25, "b": 0.5}]}]}  # fmt: skip
    return {"kind": "analysis", "schema": 1, "rows": rows, "worst": worst, "drift": "t9", "drift_db": 20.0}
