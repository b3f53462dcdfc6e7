"""Calibration caches of TensorRT: read as TensorRT writes them, written back to the same bits."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxq.base.errors import UserError
from onnxq.calib.trt_cache import Cache, is_cache, read_cache, write_cache

HEADER = "TRT-8601-EntropyCalibration2"
# Lines of caches that users have published. The first is 1 / 127: an image from 0 to 1.
PUBLISHED = f"""{HEADER}
images: 3c010204
onnx::Conv_329: 3c96d93c
(Unnamed Layer* 22) [Constant]_output: 3a4b050c
/model.22/Sigmoid_output_0: 3c010a14
"""


def cache(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "calibration.cache"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_cache(path)
    assert caught.value.hint
    assert repr(str(path)) in str(caught.value)
    return str(caught.value)


class TestRead:
    def test_what_tensorrt_writes(self, tmp_path: Path) -> None:
        found = read_cache(cache(tmp_path, PUBLISHED))
        assert (found.header, found.algorithm) == (HEADER, "EntropyCalibration2")
        assert list(found.scales) == [
            "images",
            "onnx::Conv_329",
            "(Unnamed Layer* 22) [Constant]_output",
            "/model.22/Sigmoid_output_0",
        ]
        assert found.scales["images"] == np.float32(1) / np.float32(127)
        assert all(isinstance(scale, np.float32) for scale in found.scales.values())
        for line in PUBLISHED.splitlines()[1:]:
            name, bits = line.rsplit(": ", 1)
            assert struct.pack(">f", found.scales[name]).hex() == bits

    @pytest.mark.parametrize(
        ("header", "algorithm"),
        [
            ("TRT-7103-MinMaxCalibration", "MinMaxCalibration"),
            ("TRT-5105-EntropyCalibration", "EntropyCalibration"),
            ("TRT-100300-EntropyCalibration2", "EntropyCalibration2"),
            ("TRT-8XXX-LegacyCalibration", "LegacyCalibration"),
        ],
    )
    def test_headers(self, tmp_path: Path, header: str, algorithm: str) -> None:
        assert read_cache(cache(tmp_path, f"{header}\n")) == Cache(header, algorithm, {})

    @pytest.mark.parametrize(
        "text",
        [
            PUBLISHED.replace("\n", "\r\n"),
            PUBLISHED.replace("3c96d93c", "3C96D93C"),
            PUBLISHED.rstrip("\n"),
            PUBLISHED + "\n  \n",
            "\ufeff" + PUBLISHED,
            PUBLISHED.replace(": ", ":"),
            PUBLISHED.replace("\n", " \n"),
            PUBLISHED + "images: 3c010204\n",
        ],
        ids=[
            "crlf",
            "upper",
            "no-last-newline",
            "empty-lines",
            "bom",
            "no-space",
            "trailing",
            "twice-the-same",
        ],
    )
    def test_what_others_write(self, tmp_path: Path, text: str) -> None:
        path = cache(tmp_path, text)
        assert is_cache(path)
        assert read_cache(path) == read_cache(cache(tmp_path, PUBLISHED))

    @pytest.mark.parametrize(("bits", "scale"), [("00000000", 0.0), ("0", 0.0), ("800000", 2.0**-126)])
    def test_zero_and_short_values(self, tmp_path: Path, bits: str, scale: float) -> None:
        assert read_cache(cache(tmp_path, f"{HEADER}\nx: {bits}\n")).scales == {"x": np.float32(scale)}

    def test_a_name_with_a_colon_and_a_number(self, tmp_path: Path) -> None:
        found = read_cache(cache(tmp_path, f"{HEADER}\na: 3f800000: 40000000\n"))
        assert found.scales == {"a: 3f800000": np.float32(2)}

    @pytest.mark.parametrize("bits", ["7fc00000", "ffc00000", "7f800000", "ff800000", "bf800000", "7f800001"])
    def test_a_value_that_is_no_scale(self, tmp_path: Path, bits: str) -> None:
        said = refused(cache(tmp_path, f"{HEADER}\nx: 3f800000\n\nmask: {bits}\n"))
        assert "line 4: tensor 'mask'" in said

    @pytest.mark.parametrize(
        "line", ["x", "x: ", ": 3f800000", "x: 3f80000g", "x: 3f8000000", "x: 0x3f8000", "x: 3f 80", "x: -1"]
    )
    def test_a_malformed_line(self, tmp_path: Path, line: str) -> None:
        assert "line 3: " in refused(cache(tmp_path, f"{HEADER}\na: 3f800000\n{line}\n"))

    def test_two_scales_of_one_tensor(self, tmp_path: Path) -> None:
        said = refused(cache(tmp_path, f"{HEADER}\nx: 3f800000\ny: 3f800000\nx: 40000000\n"))
        assert "line 4: tensor 'x'" in said

    @pytest.mark.parametrize(
        "text", ["", "1\nx: 3f800000\n", "TRT-8601\n", "x: 3f800000\n", b"TRT-\xff\xfe\x00", b"\x89PNG\r\n"]
    )
    def test_another_file(self, tmp_path: Path, text: str | bytes) -> None:
        assert "not a calibration cache" in refused(cache(tmp_path, text))

    def test_no_file(self, tmp_path: Path) -> None:
        assert "No such file" in refused(tmp_path / "calibration.cache")
        assert not is_cache(tmp_path / "calibration.cache")
        assert not is_cache(tmp_path)

    def test_other_files_are_not_caches(self, tmp_path: Path) -> None:
        for text in (b"", b"TRT", b"\x93NUMPY", b"trt-8601-", b"\xef\xbb\xbf1\n", b"PK\x03\x04"):
            assert not is_cache(cache(tmp_path, text))


class TestWrite:
    def test_text(self) -> None:
        scales = {"b": np.float32(1 / 127), "a": np.float32(0), "c: d e": np.float32(2)}
        assert write_cache(scales, HEADER) == f"{HEADER}\nb: 3c010204\na: 00000000\nc: d e: 40000000\n"

    @pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
    def test_no_scale(self, scale: float) -> None:
        with pytest.raises(UserError, match="tensor 'x' has the scale"):
            write_cache({"x": np.float32(scale)}, HEADER)

    @pytest.mark.parametrize("name", ["", "a\nb"])
    def test_a_name_that_makes_no_line(self, name: str) -> None:
        with pytest.raises(UserError, match="cannot hold a tensor of the name"):
            write_cache({name: np.float32(1)}, HEADER)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1)
SCALES = st.floats(min_value=0, width=32, allow_infinity=False).map(np.float32)


@given(scales=st.dictionaries(NAMES, SCALES))
def test_the_bits_survive(tmp_path_factory: pytest.TempPathFactory, scales: dict[str, np.float32]) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.cache"
    path.write_bytes(write_cache(scales, HEADER).encode())
    found = read_cache(path).scales
    assert list(found) == list(scales)
    assert [s.tobytes() for s in found.values()] == [s.tobytes() for s in scales.values()]
