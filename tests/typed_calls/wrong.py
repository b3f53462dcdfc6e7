"""Calls each line of which a type checker refuses; nothing here is run."""

import onnxq

onnxq.quantize("m.onnx", "data", mehtod="mse")
onnxq.quantize("m.onnx", "data", method="msee")
onnxq.quantize("m.onnx", "data", percentile="high")
onnxq.quantize("m.onnx", "data", samples="many")
onnxq.quantize("m.onnx", "data", body="int8")
onnxq.quantize("m.onnx", "data", keep_float=3)
onnxq.quantize("m.onnx", "data", shapes={"x": 3})
onnxq.quantize("m.onnx", "data", profiles={"x": ((1, 3), (4, 3))})
onnxq.quantize("m.onnx", "data", batch="1:8:32")
onnxq.quantize("m.onnx", "data", min_sqnr="30")
onnxq.quantize("m.onnx", "data", compile="no")
onnxq.quantize("m.onnx", "data", allow_interface_changes=True)
onnxq.quantize("m.onnx", "data", calibration="mse")
onnxq.quantize("m.onnx", "data", goal=onnxq.Calibration())
onnxq.quantize("m.onnx", "data", margins=onnxq.Margins())
onnxq.plan("m.onnx", "data", goal=onnxq.Goal(30))
onnxq.plan("m.onnx", "data", cache=True)
onnxq.sensitivity("m.onnx", "data", top="all")
onnxq.sanitize("m.onnx", prove="sometimes")
onnxq.calibrate("m.onnx", "data")
onnxq.compare("a.onnx", "b.onnx")
onnxq.check("m.onnx", "data", min_sqnr=20)
onnxq.diff("a.report.json", "b.report.json", margin="0.5")
onnxq.quantize("m.onnx", "d").report["plan"]["sitse"]
onnxq.quantize("m.onnx", "d").report.planned()
onnxq.split("m.onnx", at=["y"]).manifest["pieces"]
