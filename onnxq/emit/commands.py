"""The exact commands with which the user goes on: trtexec and Polygraphy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from onnxq.run.profiles import Profile


def commands(
    model: Path,
    tool: str,
    profiles: Mapping[str, Profile],
    original: Path | None,
    cache: Path | None = None,
    implicit: bool = False,
    types: Sequence[str] = (),
    *,
    more: Sequence[Mapping[str, Profile]] = (),
    exact: bool = False,
    explain: bool = True,
) -> list[str]:
    """Command lines for an output file.

    Args:
        model: the file that was written.
        tool: the command that builds engines of the target.
        profiles: smallest, usual and largest shape of each dynamic input.
        original: the float model, to compare with.
        cache: the calibration cache, or None.
        implicit: whether TensorRT quantizes the model itself, by the cache.
        types: flags of trtexec and of Polygraphy that let TensorRT run the types of Q/DQ pairs.
        more: likewise of further optimization profiles.
        exact: whether TensorRT must not round the factors of float32 products to TF32, as it does by itself
            (Polygraphy does not).
        explain: whether the tool can write what `onnxq engine --layer-info --profile-times` reads: the layers
            of the engine, and what each takes, in a run of its own after the one that is measured.
    """
    build_types, run_types = types or ("", "")
    build = [tool, f"--onnx={model}", f"--saveEngine={model.with_suffix('.engine').name}"]
    if implicit and cache is not None:
        build += ["--int8", f"--calib={cache}"]
    elif build_types:
        build += build_types.split()
    if exact:
        build.append("--noTF32")
    several = [one for one in (profiles, *more) if one]
    for number, one in enumerate(several):
        build += [f"--profile={number}"] if len(several) > 1 else []
        for position, flag in enumerate(("minShapes", "optShapes", "maxShapes")):
            sizes = (f"{name}:{'x'.join(map(str, profile[position]))}" for name, profile in one.items())
            build.append(f"--{flag}={','.join(sizes)}")
    if explain:
        build += ["--profilingVerbosity=detailed", "--dumpProfile", "--separateProfileRun"]
        build.append(f"--exportLayerInfo={model.with_suffix('.layers.json').name}")
        build.append(f"--exportProfile={model.with_suffix('.times.json').name}")
    lines = [shlex.join(build)]
    if original is not None and not implicit:
        run = ["polygraphy", "run", str(model), "--onnxrt", "--trt", *run_types.split()]
        for one in several:
            for position, flag in enumerate(("--trt-min-shapes", "--trt-opt-shapes", "--trt-max-shapes")):
                run.append(flag)
                run += [f"{name}:[{','.join(map(str, p[position]))}]" for name, p in one.items()]
        lines.append(("POLYGRAPHY_USE_TENSORRT_RTX=1 " if tool == "tensorrt_rtx" else "") + shlex.join(run))
    return lines
