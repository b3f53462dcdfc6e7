"""The operators that only move values: each element of the first output is one of the first input's."""

REARRANGES = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
"""Every value once, in the same order or axes permuted."""

MOVES = (
    *REARRANGES, "DepthToSpace", "SpaceToDepth", "Slice", "Split", "Gather", "Expand", "Tile", "MaxPool",
)  # fmt: skip
"""Those, and what selects or repeats values. (A Pad and a Resize do so only with some attributes.)"""
