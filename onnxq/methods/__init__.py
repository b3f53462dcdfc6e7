"""The calibration methods, a file each; `onnxq.method` loads them."""
