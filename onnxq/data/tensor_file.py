"""Tensors in `.pb` files, as in the test data of the ONNX model zoo."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import onnx

from onnxq.base import door
from onnxq.base.errors import UserError, unknown_name

INPUT = re.compile(r"input_(\d+)\.pb")
"""The name of an input's file in a `test_data_set_0`."""

OUTPUT = re.compile(r"output_\d+\.pb")
"""The name of an expected output's."""


def read_tensor(path: Path) -> tuple[str, np.ndarray]:
    """The name (it may be empty) and the values of a TensorProto file.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    try:
        data = door.content(path)
    except OSError as error:
        raise UserError(
            f"cannot read {str(path)!r}: {error.strerror}", hint="check the file's permissions"
        ) from error
    try:
        tensor = onnx.TensorProto.FromString(data)
        if tensor.HasField("segment"):  # no tensor has any; there a sequence has its elements
            raise UserError(
                f"{str(path)!r} holds a sequence or an optional value, not a tensor",
                hint="inputs are calibrated with tensors only",
            )
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise UserError(
                f"{str(path)!r} keeps its values in another file", hint="save them in the .pb file itself"
            )
        if tensor.data_type == onnx.TensorProto.UNDEFINED:
            raise ValueError("it has no data type")
        values = onnx.numpy_helper.to_array(tensor)
    except UserError:
        raise
    except Exception as error:  # protobuf's and numpy's, for bytes that are anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(
            f"{str(path)!r} is no TensorProto, or it is truncated: {reason}",
            hint="copy the file again, or write it with onnx.save_tensor",
        ) from error
    return tensor.name, values.astype(str) if values.dtype.hasobject else values


def read_set(folder: Path, inputs: Sequence[str], stated: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The inputs of a `test_data_set_0`.

    Where the tensors have the names of all inputs, they are matched by name; else `input_1.pb` is
    the second input.

    Args:
        folder: the set.
        inputs: what the data call the inputs, in the model's order.
        stated: those of them that the user says, so that they must be there.

    Raises:
        UserError: a file cannot be read, or there is not one for each input.
    """
    numbered = {int(match[1]): path for path in folder.iterdir() if (match := INPUT.fullmatch(path.name))}
    tensors = [read_tensor(numbered[number]) for number in sorted(numbered)]
    by_name = dict(tensors)
    if all(name in by_name for name in inputs):
        return {name: by_name[name] for name in inputs}
    for name in stated:
        if name not in by_name:
            error = unknown_name(f"tensor in {str(folder)!r} named", name, filter(None, by_name))
            raise UserError(f"{error}, which --input-name gives to an input", hint=error.hint)
    if sorted(numbered) != list(range(len(inputs))):
        have = ", ".join(numbered[number].name for number in sorted(numbered)) or "no input_0.pb"
        raise UserError(
            f"{str(folder)!r} has {have}; the model has {len(inputs)} "
            f"input{'s' * (len(inputs) > 1)} ({', '.join(inputs)})",
            hint=f"give each input a file, input_0.pb to input_{len(inputs) - 1}.pb in the model's order"
            if len(inputs) > 1
            else "the one input's file is input_0.pb",
        )
    return {name: values for name, (_, values) in zip(inputs, tensors, strict=True)}
