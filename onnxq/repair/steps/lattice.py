"""Lattice: an input that is made of 8-bit pixels gets a code for each of their values."""

from onnxq.repair.steps import Proposal, Turn, step


@step(
    place=1, even=True, edit="onnxq.repair.lattice:Lattice", there="onnxq.repair.lattice:there",
    reserved="always",
    nothing="no quantized layer reads an input of 8-bit pixels whose values have no codes of their own yet",
)  # fmt: skip
def lattice(turn: Turn) -> Proposal:
    """See `onnxq.repair.lattice`."""
    from onnxq.repair import lattice

    return turn.edits(lattice.find(turn.model, turn.draft, turn.values))
