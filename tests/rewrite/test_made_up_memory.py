"""What runs on made-up input takes no more memory than it may, whatever sizes stand in the model."""

from __future__ import annotations

import re
import subprocess
import sys

import onnx
import onnx.parser
import pytest

import onnxq

# Tensors of gigabytes: that nobody reads but a Shape, an input, one that a Tile makes.
MODELS = {
    "read by Shape": """g (float[1, 3, 8, 8] x) => (float y)
        <float[1, 1] k = {0.5}, int64[2] s = {65536, 32768}> {
        e = Expand (k, s)  h = Shape (e)  c = Cast <to = 1> (h)
        m = ReduceSum <keepdims = 0> (c)  y = Add (x, m) }""",
    "in front of what is replaced": """g (float[65536, 32768] x) => (float[65536, 32768] y) {
        a = Transpose <perm = [1, 0]> (x)  y = Transpose <perm = [1, 0]> (a) }""",
    "in the middle": """g (float[1, 4] x) => (float[1, 4] y) <int64[2] s = {1048576, 1024}> {
        t = Tile (x, s)  u = Identity (t)
        m = ReduceMax <axes = [0, 1], keepdims = 0> (u)  y = Add (x, m) }""",
}
RUN = """
import resource, sys
import onnx, onnx.parser, onnxq
resource.setrlimit(resource.RLIMIT_AS, (14 << 30, 14 << 30))
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + sys.argv[1])
del model.graph.output[0].type.tensor_type.shape.dim[:]
model.graph.output[0].type.tensor_type.ClearField("shape")
result = onnxq.sanitize(model)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere memory is not bounded")
@pytest.mark.parametrize("name", MODELS)
def test_sanitizing_takes_no_more_than_it_may(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, MODELS[name]], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < 2600  # MiB: what is made up may take 2048


def test_the_tensor_that_is_too_large_is_named() -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> {MODELS["in front of what is replaced"]}'
    )
    report = onnxq.sanitize(model).report
    said = r"'x' alone takes 8.59 GB, and a made-up sample may take 500 MB \(--largest raises that\)"
    assert any(re.search(said, one.why) for one in report.whole_model)
