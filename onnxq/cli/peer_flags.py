"""Flags and verbs of other tools, and what they are called here: a line each, for all that share it.

Of Model-Optimizer, onnxruntime, AIMET, Quark, neural-compressor, polygraphy, trtexec, onnxsim, onnxslim and
Ultralytics. What means the same is taken as it is; of the others the command line to type is said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

ALL = -1
"""Values of a flag: all words up to the next flag or model."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a flag is here.

    Attributes:
        ours: what is typed in its place, `{}` for each value; "": nothing is.
        why: what its user has to know; "": it means the same, and is taken.
        values: how many values it has.
    """

    ours: str = ""
    why: str = ""
    values: int = 1


_SHAPES = ("--minShapes", "--optShapes", "--maxShapes")
_BUILDS = "it is for building the engine: trtexec has it, by the line that is printed at the end"
_OWN = "onnxq writes int8, or fp8 with --format fp8"
_BOTH = "activations and weights are int8 around 0, and weights have a scale a channel"
_CLEANS = "the graph is repaired and simplified anyway; --skip RULE leaves a rule out"
_TIMES = "no speed is estimated: a GPU tells it, by the line that is printed at the end"
_CPU = "onnxq runs on the CPU and needs no GPU"

_PEERS: Mapping[str, Peer] = {
    "--calib-method --calibration-method --calibrate-method --calibration-algo --algo": Peer("--method {}"),
    "--exclude --exclude-nodes --exclude-layers --skip-layers --ignore-layers": Peer("--keep-float {}"),
    "--nodes-to-exclude": Peer("--keep-float {}", values=ALL),
    "--exclude-ops": Peer("--keep-float-op {}"),
    "--op-types-to-exclude": Peer("--keep-float-op {}", values=ALL),
    "--shapes --input-shape --input-shapes --calibration-shapes --overwrite-input-shape --test-input-shape":
        Peer("--shape {}", values=ALL),
    "--batch-size --bs": Peer("--batch {}"),
    "--calib-dir --calib-data --calib-path --calib-dataset --calibration-dir --calibration-data --dataset "
    "--calibration-data-path --calibration-dataset --data-dir --data --inputs":
        Peer("--calib {}"),
    "--calib": Peer("--data {}"),
    "--num-samples --calib-size --calibration-size --num-calib-samples --calib-num --n-samples":
        Peer("--samples {}"),
    "--output-path --output-model --output-model-path --output-file --save --out": Peer("--output {}"),
    "-i --input --input-path --input-model --input-model-path --onnx --onnx-path --model --model-path":
        Peer("{}"),
    "--compute-capability": Peer("--sm {}"),
    "--trt-version --tensorrt-version": Peer("--target {}"),
    "--quantize-mode --quant-mode": Peer("--format {}"),
    "--fp8": Peer("--format fp8", values=0),
    "--fp16": Peer("--body fp16", values=0),
    "--bf16": Peer("--body bf16", values=0),
    "--fp32": Peer("--body fp32", values=0),
    "--high-precision-dtype": Peer("--body {}"),
    "--no-compile --skip-compile --skip-engine --no-trt": Peer("--no-engine", values=0),
    "--per-tensor": Peer("--scale-form per-tensor", values=0),
    "-y --yes --overwrite": Peer("--force", values=0),
    "--debug": Peer("--verbose", values=0),
    "--int8 --quantize": Peer("", "onnxq quantize writes int8 anyway, onnxq sanitize the model in float", 0),
    "--int4 --uint4 --fp4 --nvfp4 --mxfp8 --int16 --w4a16 --w4a8 --w8a16": Peer("", _OWN, 0),
    "--precision --dtype --weight-type --activation-type --quant-type":
        Peer("", f"{_OWN}; the type of the rest is --body"),
    "--quant-format": Peer("", "Q/DQ pairs are what onnxq writes"),
    "--best": Peer("", "int8 layers and the type of the others stand in the file: TensorRT chooses none", 0),
    "--per-channel --symmetric --asymmetric --reduce-range": Peer("", _BOTH, 0),
    "--op-types-to-quantize": Peer("", "all that gains is quantized; --keep-float-op leaves others out", ALL),
    "--simplify --optimize --fold-constants --skip-shape-inference --no-shape-infer --skip-optimization "
    "--skip-fuse-bn --enable-shape-inference --toposort": Peer("", _CLEANS, 0),
    "--passes --fuse-patterns --skip-fusion-patterns": Peer("", _CLEANS, ALL),
    "--device --provider --execution-provider --gpu-id": Peer("", _CPU),
    "--calibration-eps --providers --execution-providers": Peer("", _CPU, ALL),
    "--cuda --cpu --use-cuda --use-gpu": Peer("", _CPU, 0),
    "--opset --opset-version": Peer("", "the opset is raised by itself where Q/DQ pairs need it"),
    "--imgsz --img-size": Peer("", "images are resized to the input's size, or to --resize WxH", ALL),
    "--save-engine --saveEngine --loadEngine --workspace --memPoolSize --iterations --duration --warmUp "
    "--avgRuns --timingCacheFile --builderOptimizationLevel --streams": Peer("", _BUILDS),
    "--noTF32 --useCudaGraph --useSpinWait --skipInference --buildOnly --noDataTransfers --stronglyTyped "
    "--strongly-typed --dumpLayerInfo --sparsity --useDLACore --allowGPUFallback": Peer("", _BUILDS, 0),
    "--onnxrt --trt":
        Peer("", "onnxq runs a model in onnxruntime; in TensorRT polygraphy runs it, on a GPU", 0),
    "--layerPrecisions --precisionConstraints --layerOutputTypes":
        Peer("", "layers that stay in float32 are named by --keep-fp32 NAME"),
    "--use-external-data-format --save-as-external-data --all-tensors-to-one-file --external-data":
        Peer("", "weights beyond 2 GB stand in X.onnx.data by themselves", 0),
    "--smoothquant --smooth-quant": Peer("--repair smooth,bias,gptq", "it is a step of --repair", 0),
    "--gptq": Peer("--repair bias,gptq", "it is a step of --repair", 0),
    "--awq": Peer("", "weights alone are not quantized here; --repair names the steps that gain accuracy", 0),
    "--gpu": Peer("", _TIMES),
    "--fastest": Peer("", _TIMES, 0),
    "--log-level --log-severity": Peer("", "-v says more, -q nothing"),
}  # fmt: skip

PEERS: Mapping[str, Peer] = {name: peer for names, peer in _PEERS.items() for name in names.split()}
"""By each name, with dashes."""

_MAKES = "onnxq makes the ONNX file, and trtexec the engine of it"

_VERBS: Mapping[str, tuple[str, str]] = {
    "ptq quantise quant int8 quantization calibrate-and-quantize": ("quantize", "it is onnxq quantize"),
    "convert export build compile trtexec": ("", _MAKES),
    "simplify optimize optimise fix repair clean slim fold surgeon surgery fp16 onnxsim onnxslim":
        ("sanitize", "onnxq sanitize repairs and simplifies"),
    "bench benchmark perf profile latency speed":
        ("engine", "only a GPU tells times, by trtexec; onnxq engine says what stands in the engine"),
    "info show view summary print stats list layers netron visualize": ("inspect", "it is onnxq inspect"),
    "lint validate verify test doctor support": ("check", "it is onnxq check"),
    "eval evaluate accuracy cmp": ("compare", "it is onnxq compare, of two models on data"),
    "debug": ("analyze", "onnxq analyze compares two models layer by layer"),
    "compare-reports": ("diff", "it is onnxq diff"),
}  # fmt: skip

PEER_VERBS: Mapping[str, tuple[str, str]] = {
    name: said for names, said in _VERBS.items() for name in names.split()
}
"""By the verb of another tool: the verb here ("": what is given decides), and what its user has to know."""

METHODS: Mapping[str, str] = {
    "max": "minmax", "min_max": "minmax", "MinMax": "minmax", "CalibrationMethod.MinMax": "minmax",
    "Entropy": "entropy", "CalibrationMethod.Entropy": "entropy", "kl": "entropy", "hist_entropy": "entropy",
    "Percentile": "percentile", "CalibrationMethod.Percentile": "percentile", "hist_percentile": "percentile",
    "sqnr": "mse", "tf_enhanced": "mse", "tf": "minmax",
}  # fmt: skip
"""What is called so, behind a flag of the same tools, is called so here."""


def dashed(flag: str) -> str:
    """A flag with dashes for underscores."""
    return f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag


def peer_of(flag: str, ours: Collection[str]) -> Peer | None:
    """What a flag that is not known is here; None of what no other tool has, or of another verb's.

    Args:
        flag: as it is typed.
        ours: the flags that there are.
    """
    name = dashed(flag)
    if name in _SHAPES:
        return Peer("--profile {}") if "--profile" in ours else None
    if name in ours:
        return Peer(name, values=0)  # its values stay behind it
    peer = PEERS.get(name)
    if peer is not None and peer.ours.startswith("--calib ") and "--calib" not in ours:
        peer = Peer("--data {}")
    needs = re.findall(r"--[a-z0-9-]+", peer.ours) if peer is not None else []
    return peer if set(needs) <= set(ours) else None


def in_our_words(words: Sequence[str], unknown: str, peer: Peer) -> list[str]:
    """A command line with the words that it has here for a flag.

    Args:
        words: the command line.
        unknown: the flag.
        peer: what it is here.
    """
    if dashed(unknown) in _SHAPES:
        return _with_profiles(words)
    said, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        flag, joined, value = word.partition("=")
        if flag != unknown:
            said.append(word)
            continue
        values = [value] if joined else []
        while rest and not joined and len(values) != peer.values and not _ends(rest[0], peer, values):
            values.append(rest.pop(0))
        if "{}" not in peer.ours:
            said += [f"{peer.ours}={value}"] if joined and peer.ours == dashed(unknown) else peer.ours.split()
            continue
        for one in values:
            said += [part.replace("{}", _value(peer.ours, one)) for part in peer.ours.split()]
    return said


def _ends(word: str, peer: Peer, values: Sequence[str]) -> bool:
    """Whether a word is no value any more."""
    if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
        return True
    return peer.values == ALL and bool(values) and word.endswith(".onnx")


def _value(ours: str, value: str) -> str:
    if ours.startswith("--method "):
        return METHODS.get(value, value)
    return _shape(value) if ours.startswith("--shape ") else value


def _shape(value: str) -> str:
    """`x:1,3,224,224` and `x:1x3x224x224` as `x=1x3x224x224`."""
    name, colon, sizes = value.rpartition(":")
    return f"{name}={re.sub(r'[,x ]+', 'x', sizes.strip('[]'))}" if colon and name else value


def _with_profiles(words: Sequence[str]) -> list[str]:
    """The three flags of trtexec as --profile: a shape that is not given is that of the nearest one."""
    said, rest, shapes = list[str](), list(words), dict[str, dict[str, str]]()
    while rest:
        flag, joined, value = rest.pop(0).partition("=")
        if dashed(flag) not in _SHAPES:
            said.append(flag + joined + value)
            continue
        value = value if joined or not rest else rest.pop(0)
        for one in re.split(r",(?=[^,]*:)", value):
            name, _, sizes = one.rpartition(":")
            shapes.setdefault(name.strip("'\""), {})[flag] = sizes
    for name, stated in shapes.items():
        low, usual, high = (stated.get(flag) for flag in _SHAPES)
        middle = usual or high or low
        said += ["--profile", f"{name}={low or middle}:{middle}:{high or middle}"]
    return said
