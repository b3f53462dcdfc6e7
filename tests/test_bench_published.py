"""The published pairs are whole, and their networks are what they are said to be."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest

from benchmarks.published.nets import NETS, counts
from benchmarks.published.pairs import PAIRS, UNITS, Pair

BY_ID = {pair.id: pair for pair in PAIRS}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_pair_says_what_was_measured_and_where_that_stands(pair: Pair) -> None:
    assert pair.net in NETS
    assert pair.source.startswith("https://")
    assert pair.place
    assert pair.measured
    assert pair.gpu
    assert pair.unit in UNITS
    assert pair.quantization in ("implicit", "explicit", "")
    assert pair.batch >= 1
    assert min(pair.fp16, pair.int8) > 0
    size = NETS[pair.net].size
    assert pair.size == ("x".join(map(str, size)) if len(size) == 2 else f"{size[0]} tokens")


def test_pairs_are_told_apart_and_no_network_is_without() -> None:
    assert max(Counter(pair.id for pair in PAIRS).values()) == 1
    measured = Counter((pair.net, pair.gpu, pair.batch, pair.source, pair.quantization) for pair in PAIRS)
    assert max(measured.values()) == 1
    assert {pair.net for pair in PAIRS} == set(NETS)


def test_the_place_has_the_figures() -> None:
    """Of the words that are quoted; the source of one table has seconds."""
    for pair in PAIRS:
        for figure in (pair.fp16, pair.int8):
            factor = 1000 if "(s)" in pair.place else 1
            assert f"{figure / factor:g}"[:5] in pair.place, pair.id


@pytest.mark.parametrize(
    ("name", "gain", "times"),
    [
        ("mmdeploy-t4-fcn_r50", 23.97 / 18.13, (23.97, 18.13)),  # ms
        ("ultralytics-a100-yolov8n", 0.34 / 0.28, (8 * 0.34, 8 * 0.28)),  # ms an image
        ("nvidia-orin-yolov7-b16", 266 / 168, (16e3 / 168, 16e3 / 266)),  # images per second
        ("levipereira-4090-yolov9c-b8", 261 / 153, (1e3 / 153, 1e3 / 261)),  # batches per second
        ("maggiez-t4-swin_t-b1", 385.454 / 510.072, (1e3 / 510.072, 1e3 / 385.454)),  # int8 is slower
    ],
)
def test_gain_and_times_follow_the_unit(name: str, gain: float, times: tuple[float, float]) -> None:
    assert BY_ID[name].gain == pytest.approx(gain, rel=1e-12)
    assert BY_ID[name].milliseconds == pytest.approx(times, rel=1e-12)


@pytest.mark.parametrize("name", ["shufflenet_v2", "mobilenet_v3_large", "yolov7_tiny", "yolov8n"])
def test_networks_have_the_published_size(name: str) -> None:
    """Within 3 %, or half of the last digit that is published."""
    net = NETS[name]
    assert net.source
    for counted, published in zip(counts(net), (net.gmacs, net.millions), strict=True):
        assert published is not None
        assert counted == pytest.approx(published, rel=0.03, abs=0.005)


@pytest.mark.parametrize("name", ["shufflenet_v2", "yolov8n", "deeplabv3_plus_r50"])
def test_networks_are_valid_and_their_outputs_have_the_stated_shapes(name: str) -> None:
    model = NETS[name].make()
    onnx.checker.check_model(model, full_check=True)
    stated = [output.type.tensor_type.shape.dim for output in model.graph.output]
    assert all(size.dim_value or size.dim_param for shape in stated for size in list(shape)[1:])
