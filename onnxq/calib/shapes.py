"""The shapes that tensors have in a sample: as inference knows them, else as the model says itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from onnxq.base.errors import UserError
from onnxq.calib.probes import makers
from onnxq.data.samples import Sample
from onnxq.graph.deciders import or_freeze
from onnxq.graph.types import is_static
from onnxq.run import ort
from onnxq.run.blame import at_fault
from onnxq.run.in_parts import load


def shapes_of(
    model: onnx.ModelProto,
    names: Sequence[str],
    sample: Sample,
    known: Mapping[str, Sequence[int | str | None]],
    data_dir: Path | None,
) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors in a sample.

    Args:
        model: the model; it is not modified.
        names: the tensors.
        sample: the sample.
        known: shapes that are known already; only those without an open dimension are taken.
        data_dir: the folder of the model's external data.

    Raises:
        UserError: the model does not run on the sample.
        ort.RunError: onnxruntime does not load the model.
    """
    shapes: dict[str, tuple[int, ...]] = {name: array.shape for name, array in sample.feeds.items()}
    shapes.update((tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer)
    for name in names:
        shape = known.get(name)
        if name not in shapes and is_static(shape):
            shapes[name] = tuple(shape)
    open_ = [name for name in names if name not in shapes]
    if open_:
        shapes.update(_run(model, open_, sample, data_dir))
    return {name: shapes[name] for name in names}


def _run(
    model: onnx.ModelProto, names: Sequence[str], sample: Sample, data_dir: Path | None
) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors, by running the model."""
    taken = makers(model.graph)
    prefix = "onnxq_shape_"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    added = onnx.GraphProto()
    for i, name in enumerate(names):
        added.node.append(helper.make_node("Shape", [name], [f"{prefix}{i}"]))
        added.output.append(helper.make_tensor_value_info(f"{prefix}{i}", TensorProto.INT64, None))
    session = load(model, data_dir=data_dir, probes=added)
    try:
        shapes = session.run(sample.feeds, [f"{prefix}{i}" for i in range(len(names))])
    except ort.RunError as error:
        raise UserError(
            f"the model does not run on {sample.where}: {error}",
            hint=or_freeze(at_fault(session, sample.feeds), model),
        ) from error
    return {name: tuple(map(int, shape)) for name, shape in zip(names, shapes, strict=True)}
