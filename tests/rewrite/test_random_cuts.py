"""Random graphs cut anywhere: the chain of the pieces gives what the whole gives, bit for bit."""

from __future__ import annotations

import os

import onnx
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_models import CHOICES, feeds_of, models

from onnxq.base.errors import UserError
from onnxq.graph.cut import cut
from onnxq.graph.model import Model
from onnxq.graph.order import reads
from onnxq.inspection.pieces import Chain
from onnxq.run import ort

# ONNXQ_EXAMPLES=5000 looks harder, and each time elsewhere.
EXAMPLES = int(os.environ.get("ONNXQ_EXAMPLES", "0"))


def needed(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that outputs depend on, without those that are constants."""
    wanted = {info.name for info in graph.output}
    living = []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            wanted.update(reads(node))
            if node.op_type != "Constant":
                living.append(node)
    return living


@settings(
    max_examples=EXAMPLES or 60, derandomize=not EXAMPLES, database=None, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(models(), st.data())
def test_a_chain_of_pieces_equals_the_whole(proto: onnx.ModelProto, data: st.DataObject) -> None:
    model = Model.open(proto)
    whole = model.to_proto()
    living = needed(whole.graph)
    inner = sorted({name for node in living for name in node.output if name})
    assume(living)
    operators = sorted({node.op_type for node in living})
    sets = data.draw(
        st.lists(st.lists(st.sampled_from(inner), min_size=1, max_size=2), min_size=1, max_size=3)
    )
    apart = data.draw(st.lists(st.sampled_from(operators), max_size=2, unique=True))
    try:
        pieces = cut(model, sets, apart, ort.output_types)
    except UserError as error:
        if "that does not cut" in str(error) or "is in a body" in str(error):
            return
        raise
    assert sorted(name for piece in pieces for name in piece.nodes) == sorted(n.name for n in living)
    inputs, outputs = ([info.name for info in part] for part in (whole.graph.input, whole.graph.output))
    reference = ort.load(whole, optimize=False, threads=1)
    sessions = {str(n): ort.load(p.model, optimize=False, threads=1) for n, p in enumerate(pieces)}
    chain = Chain(sessions, inputs, outputs)
    for choice in range(CHOICES):
        for special in (False, True):
            feeds = feeds_of(proto, choice, special=special, c=special, k=choice)
            for one, other in zip(reference.run(feeds), chain.run(feeds), strict=True):
                assert one.dtype == other.dtype
                assert one.shape == other.shape
                assert one.tobytes() == other.tobytes()
