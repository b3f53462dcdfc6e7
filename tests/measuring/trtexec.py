#!/usr/bin/env python3
"""A stand-in for trtexec: what it prints and writes, with costs that are hidden from who calls it.

The file that ONNXQ_STANDIN names says, by the name of a candidate: `ms`, and `noise`, `drift`, `crash`, `refuse`,
`wrong`, `wrong_at`, `hides`; and of the machine `version` (8601, 100300, 110100) and `gpu`, and what layers take in
float16 and in int8, `layers`. Engines answer what onnxruntime answers.
"""

import json
import math
import os
import random
import re
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
    here = Path(os.environ["ONNXQ_STANDIN"])
    world = json.loads(here.read_text())
    version = world.get("version", 100300)
    print(f"&&&& RUNNING TensorRT.trtexec [TensorRT v{version}] # {' '.join(sys.argv)}")
    if "help" in words:
        return 0
    if not world.get("gpu", True):
        print("[11/30/2026-10:00:00] [E] Cuda failure: no CUDA-capable device is detected")
        return 1
    known = {"onnx", "saveEngine", "loadEngine", "int8", "fp16", "fp8", "minShapes", "optShapes", "maxShapes", "shapes",
             "profilingVerbosity", "dumpProfile", "separateProfileRun", "iterations", "exportLayerInfo", "exportProfile",
             "loadInputs", "exportOutput", "warmUp", "duration", "noDataTransfers", "exportTimes", "useCudaGraph",
             "skipInference" if version >= 8500 else "buildOnly"}  # fmt: skip
    if version >= 110000:
        known -= {"int8", "fp16", "fp8"}
    for word in words:
        if word not in known:
            print(f"[E] Unknown option: --{word} {words[word]}")
            return 1
    if "onnx" in words:
        return build(words, world)
    return run(words, world, here)


def build(words: dict, world: dict) -> int:
    name = Path(words["onnx"]).stem.partition(".")[0]
    if world.get("slow"):
        time.sleep(world["slow"])
    told = world["candidates"][name]
    if told.get("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if told.get("refuse"):
        print("[11/30/2026-10:00:00] [E] [TRT] could not find any implementation for node x")
        print("&&&& FAILED TensorRT.trtexec")
        return 1
    Path(words["saveEngine"]).write_text(json.dumps({"name": name, "onnx": words["onnx"]}))
    if "exportProfile" in words:
        took = layers(words["onnx"], world["layers"]) if "layers" in world else {"a": told["ms"]}
        Path(words["exportLayerInfo"]).write_text(json.dumps({"Layers": [*took], "Bindings": []}))
        profile = [{"name": k, "timeMs": 10 * v, "averageMs": v, "percentage": 1} for k, v in took.items()]
        Path(words["exportProfile"]).write_text(json.dumps([{"count": 10}, *profile]))
    print("&&&& PASSED TensorRT.trtexec")
    return 0


def layers(path: str, known: dict) -> dict:
    """What the layers of a model take: in int8 where a DequantizeLinear feeds one; pairs take 0.01 ms each."""
    import site

    site.main()
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    codes: set = set()
    for node in nodes:
        if node.op_type == "DequantizeLinear" or (node.op_type == "Cast" and node.input[0] in codes):
            codes.add(node.output[0])
    took = {node.name: known[node.name][node.input[0] in codes] for node in nodes if node.name in known}
    return {**took, "Reformatting": 0.01 * len(codes)}


def run(words: dict, world: dict, here: Path) -> int:
    engine = json.loads(Path(words["loadEngine"]).read_text())
    told = world["candidates"][engine["name"].partition(".")[0]]
    if "useCudaGraph" in words and told.get("no_graph"):
        print("[E] CUDA graph capture failed")
        return 1
    if "exportOutput" in words:
        answers(words, engine, told)
    if "exportTimes" in words:
        count = here.with_suffix(".count")
        at = int(count.read_text()) if count.is_file() else 0
        count.write_text(str(at + 1))
        random.seed(world.get("seed", 0) * 10007 + at)
        clock = 1 + world.get("drift", 0) * math.sin(at / 7)
        runs = [told["ms"] * clock * random.gauss(1, world.get("noise", 0)) for _ in range(3)]
        typical = sorted(runs)[1]
        Path(words["exportTimes"]).write_text(
            json.dumps([{"computeMs": typical, "latencyMs": typical + 0.1}] * 20)
        )
    return 0


def answers(words: dict, engine: dict, told: dict) -> None:
    import site

    site.main()  # it starts without, which is faster
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = Path(engine["onnx"]).read_bytes()
    if told.get("wrong_at"):
        model = spoiled(model, told["wrong_at"], told.get("hides"))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = dict(re.findall(r"'?([^',]+?)'?:((?:/[^,]*))", words["loadInputs"]))
    shapes = dict(one.split(":") for one in words.get("shapes", "").split(",") if one)
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feeds = {}
    for one in session.get_inputs():
        shape = [int(n) for n in shapes[one.name].split("x")] if one.name in shapes else one.shape
        feeds[one.name] = np.fromfile(given[one.name], types[one.type]).reshape(shape)
    found = session.run(None, feeds)
    listed = []
    for out, values in zip(session.get_outputs(), found, strict=True):
        if told.get("wrong"):
            values = values + told["wrong"] * values.std() * np.random.default_rng(0).standard_normal(
                values.shape
            )
        shape = "x".join(map(str, values.shape))
        listed.append(
            {"name": out.name, "dimensions": shape, "values": [float(one) for one in values.ravel()]}
        )
    Path(words["exportOutput"]).write_text(json.dumps(listed))


def spoiled(model: bytes, at: str, hides: object) -> bytes:
    """A model one tensor of which is wrong; `hides`: it is right where it is an output."""
    import onnx

    proto = onnx.load_from_string(model)
    if hides and any(one.name == at for one in proto.graph.output):
        return model
    maker = next(node for node in proto.graph.node if at in node.output)
    maker.output[list(maker.output).index(at)] = at + "_right"
    half = onnx.numpy_helper.from_array(__import__("numpy").array(0.5, "float32"), at + "_half")
    kind = next((one.type.tensor_type.elem_type for one in proto.graph.output if one.name == at), 0)
    place = [node.output for node in proto.graph.node].index(maker.output)
    steps = [
        onnx.helper.make_node("CastLike", [at + "_half", at + "_right"], [at + "_cast"]),
        onnx.helper.make_node("Mul", [at + "_right", at + "_cast"], [at]),
    ]
    proto.graph.initializer.append(half)
    rest = [*proto.graph.node[: place + 1], *steps, *proto.graph.node[place + 1 :]]
    del proto.graph.node[:]
    proto.graph.node.extend(rest)
    assert kind in (0, 1, 10)
    return proto.SerializeToString()


if __name__ == "__main__":
    sys.exit(main())
