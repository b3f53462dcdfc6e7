#!/usr/bin/env python3
"""A stand-in for trtexec: what it prints and writes, with costs that are hidden from who calls it.

The file that ONNXQ_STANDIN names says, by the name of a candidate: `ms`, and `noise`, `drift`, `crash`, `refuse`,
`wrong`; and of the machine `version` (8601, 100300, 110100) and `gpu`. Engines answer what onnxruntime answers.
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
    name = Path(words["onnx"]).stem
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
        Path(words["exportLayerInfo"]).write_text(json.dumps({"Layers": ["a"], "Bindings": []}))
        profile = [
            {"count": 10},
            {"name": "a", "timeMs": 10 * told["ms"], "averageMs": told["ms"], "percentage": 100},
        ]
        Path(words["exportProfile"]).write_text(json.dumps(profile))
    print("&&&& PASSED TensorRT.trtexec")
    return 0


def run(words: dict, world: dict, here: Path) -> int:
    engine = json.loads(Path(words["loadEngine"]).read_text())
    told = world["candidates"][engine["name"]]
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
    session = onnxruntime.InferenceSession(engine["onnx"], options, providers=["CPUExecutionProvider"])
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


sys.exit(main())
