"""Calls that a type checker takes; nothing here is run."""

from pathlib import Path

import numpy as np
import onnx

import onnxq

model = onnx.load("m.onnx")
samples = [{"x": np.zeros((1, 3, 8, 8), np.float32)}]

onnxq.quantize("m.onnx", "data")
onnxq.quantize(Path("m.onnx"), Path("data"), method="mse")
onnxq.quantize(model, samples, method="percentile", percentile=99.9, samples=64, seed=1)
onnxq.quantize("m.onnx", iter(samples), target="tensorrt-10", body="bf16", io="fp32")
onnxq.quantize("m.onnx", "data", keep_float=["a", "b"], loud="auto", scale_form="post-scale")
onnxq.quantize("m.onnx", "data", shapes={"x": [1, 3, "H", "W"]}, assume={"N": 1}, freeze={"k": 3})
onnxq.quantize("m.onnx", "data", profiles={"x": ((1, 3), (4, 3), (8, 3))}, batch=(1, 8, 32))
onnxq.quantize("m.onnx", "data", min_sqnr=30, max_float=0.2, time_limit=60, weigh={"y": 2.0})
onnxq.quantize("m.onnx", "data", min_agreement=("y", 0.99), compile=False, device=89)
onnxq.quantize("m.onnx", "data", eval=lambda run: 1.0, max_drop=0.1, workers=2)
onnxq.quantize("m.onnx", "data", calibration=onnxq.Calibration("entropy"), repairs={"prove": "never"})
onnxq.quantize("m.onnx", stats="m.stats.npz", repair=["bias", "gptq"], repair_samples=32)
onnxq.quantize("m.onnx", "data", goal=onnxq.Goal(30), images={"preset": "yolo"}, accuracy=None)
onnxq.statistics("m.onnx", "data", feeding=onnxq.Feeding(skip_bad=True), runtime={"ort_ops": ["lib.so"]})
onnxq.plan("m.onnx", "data", skip=["unfuse_gelu"], skip_bad=True)
onnxq.sensitivity("m.onnx", "data", top=5, weigh={"y": 2.0})
onnxq.sanitize("m.onnx", prove="always", allow_interface_changes=True)
onnxq.calibrate("m.onnx", "data", "m.stats.npz", shard=(1, 4), exact=True)
onnxq.compare("a.onnx", "b.onnx", "data", min_sqnr=20, input_names={"x": "image"})
onnxq.check("m.onnx", "data", target="tensorrt-8.6", rules=["my_rules"])
onnxq.diff("a.report.json", "b.report.json", margin_db=0.5)
onnxq.split("m.onnx", at=["y"], ort_ops=["libops.so"])

report = onnxq.quantize("m.onnx", "d").report
print([change.rule for change in report.changes], report.engine.int8, report.goal is None or report.goal.met)
print(report.plan.sites if report.plan else (), report.to_dict()["plan"]["sites"])
print(onnxq.sensitivity("m.onnx", "d").report.sensitivity.decisions[0].gain_db)
print([piece.nodes for piece in onnxq.split("m.onnx", at=["y"]).manifest.pieces])
