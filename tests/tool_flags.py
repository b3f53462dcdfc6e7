"""The flags of NVIDIA's tools that onnxq prints, and the releases that know them.

trtexec: the options that `samples/common/sampleOptions.cpp` of github.com/NVIDIA/TensorRT reads, at the tags
of the releases below. tensorrt_rtx has no public source: the guide "Best Practices" of TensorRT-RTX shows
`--onnx` and `--profilingVerbosity=detailed`; others are taken to be those of trtexec 11.0, which nobody
has checked. Polygraphy's flags are read by the tool itself.
"""

from __future__ import annotations

RELEASES = {
    "tensorrt-7": "7.1.3", "tensorrt-8.0": "8.0.1", "tensorrt-8.2": "8.2.1", "tensorrt-8.5": "8.5.3",
    "tensorrt-8.6": "v8.6.1", "tensorrt-10": "v10.16", "tensorrt-11": "v11.0", "tensorrt-rtx": "v11.0",
}  # fmt: skip
"""The tag at which the flags of each target's trtexec were looked up."""

ORDER = ("7.1.3", "8.0.1", "8.2.1", "8.5.3", "v8.6.1", "v10.16", "v11.0")

SINCE = {
    "--onnx": ("7.1.3", "v11.0"), "--saveEngine": ("7.1.3", "v11.0"), "--noTF32": ("7.1.3", "v11.0"),
    "--minShapes": ("7.1.3", "v11.0"), "--optShapes": ("7.1.3", "v11.0"), "--maxShapes": ("7.1.3", "v11.0"),
    "--int8": ("7.1.3", "v10.16"), "--fp16": ("7.1.3", "v10.16"), "--calib": ("7.1.3", "v10.16"),
    "--bf16": ("v10.16", "v10.16"),
    "--dumpProfile": ("7.1.3", "v11.0"), "--exportProfile": ("7.1.3", "v11.0"),
    "--separateProfileRun": ("8.0.1", "v11.0"),
    "--profilingVerbosity": ("8.2.1", "v11.0"), "--exportLayerInfo": ("8.2.1", "v11.0"),
}  # fmt: skip
"""Each flag with the first and the last of these releases that has it."""


def known(target: str) -> set[str]:
    """The flags of a target's trtexec, of those that onnxq prints."""
    place = ORDER.index(RELEASES[target])
    return {flag for flag, (first, last) in SINCE.items() if ORDER.index(first) <= place <= ORDER.index(last)}
