"""The steps of repair, a file each: what a step would change, and what it needs for it.

A file of the user's has the same form, and needs no more than what is named here.
"""

from onnxq.options.step import Step, step
from onnxq.repair.turn import Proposal, Turn

__all__ = ["Proposal", "Step", "Turn", "step"]
