"""The files for who serves an engine: their names, and what is written into them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnxq.base.errors import UserError
from onnxq.base.remarks import remark
from onnxq.emit.deepstream import deepstream
from onnxq.emit.served import Served
from onnxq.emit.triton import triton
from onnxq.options.settings import SERVERS
from onnxq.targets import Target

_ENDINGS = dict(zip(SERVERS, (".config.pbtxt", ".deepstream.txt", ".build.sh"), strict=True))


def serving_path(output: Path, server: str) -> Path:
    """The file beside a model: `X.config.pbtxt`, `X.deepstream.txt` or `X.build.sh` for `X.onnx`.

    Args:
        output: the model's path.
        server: one of `SERVERS`.
    """
    return output.with_name(output.with_suffix("").name + _ENDINGS[server])


def check_servers(servers: Sequence[str], target: Target) -> None:
    """Refuses servers that do not run engines of a target.

    Raises:
        UserError: there is one.
    """
    for name in servers:
        if name != "trtexec" and target.tool != "trtexec":
            raise UserError(
                f"a file for {name} is asked for, which runs engines of TensorRT, and the target is "
                f"{target.title}",
                hint="give another --target, or leave it out of --deploy",
            )


def serving_text(server: str, served: Served) -> str:
    """What is written for a server; what it cannot say is remarked.

    Args:
        server: one of `SERVERS`.
        served: the engine.
    """
    if server == "trtexec":
        return f'#!/bin/sh\nset -e\ncd "$(dirname "$0")"\n{served.build}\n'
    if server == "triton":
        return triton(served)
    text, open_ = deepstream(served)
    for one in open_:
        remark(f"DeepStream: {one}")
    return text
