"""One scale for all inputs and the output of a Concat.

A Concat of int8 tensors is a copy where all have one scale; with different scales each part is
requantized, and with a pair at the output alone the other readers of the parts miss the int8 copy.
A constant part stays float; its range counts for the scale that all share.
"""

from onnxq.rule import Fires, Follow, Node, Skips, place


@place("Concat")
def concat_shares_scale(node: Node) -> list[Follow]:
    return [
        Follow(node, index, "inputs of one Concat")
        for index, tensor in enumerate(node.inputs)
        if tensor is not None
    ]


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[1, 8] z) => (float[1, 16] y) { y = Concat <axis = 1> (x, z) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[1, 8] z) => (float[1, 8] y) { y = Add (x, z) }"""
    ),
]
