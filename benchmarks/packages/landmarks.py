"""Points of faces, hands and bodies, which MediaPipe's package holds: how far they move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.packages import mediapipe
from benchmarks.packages.mediapipe import Part
from benchmarks.packages.net import Figure, Net, Pool, Sample, share
from benchmarks.packages.running import Outputs

Points = tuple[np.ndarray, float]
"""Points in shares of the side of what is fed, [points, 2], and how sure the net is of them, 0 to 1."""


def nets() -> Iterator[Net]:
    """Face mesh, hand, body."""
    yield _net("face_mesh", "face_landmark/face_landmark", 192, mediapipe.faces, _face)
    yield _net("hand", "hand_landmark/hand_landmark_full", 224, mediapipe.hands, _hand)
    yield _net("pose", "pose_landmark/pose_landmark_full", 256, mediapipe.people, _pose)


def _net(
    name: str,
    path: str,
    size: int,
    parts: Callable[[], list[Part]],
    answer: Callable[[Outputs, Sample], Points],
) -> Net:
    def make(part: Part) -> Sample:
        return Sample({"input_1": part.pixels(size)})

    def pool() -> Pool:
        return Pool.of(parts(), make, lambda part: part.photograph)

    return Net(
        name, mediapipe.PACKAGE, mediapipe.LICENCE, "points", lambda: mediapipe.model(path), pool, answer,
        _moved, judges=160,
    )  # fmt: skip


def _face(outputs: Outputs, _: Sample) -> Points:
    points, sure = outputs.values()
    return points.reshape(468, 3)[:, :2] / 192, _sigmoid(float(sure.ravel()[0]))


def _hand(outputs: Outputs, _: Sample) -> Points:
    return outputs["Identity"].reshape(21, 3)[:, :2] / 224, float(outputs["Identity_1"].ravel()[0])


def _pose(outputs: Outputs, _: Sample) -> Points:
    return outputs["Identity"].reshape(39, 5)[:33, :2] / 256, float(outputs["Identity_1"].ravel()[0])


def _sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -50, 50))))


def _moved(exact: Sequence[Points], given: Sequence[Points], _: Sequence[Any]) -> Figure:
    """How far points move, percent of the diagonal of the float net's; of objects that it is sure of."""
    moved, kept = [], 0
    for (points, sure), (others, still) in zip(exact, given, strict=True):
        if sure >= 0.5:
            size = float(np.hypot(*np.ptp(points, axis=0)))
            moved.append(share(float(np.hypot(*(points - others).T).mean()), size))
            kept += still >= 0.5
    if not moved:
        return {"moved %": float("nan"), "of": 0}
    return {
        "moved %": float(np.mean(moved)),
        "of": len(moved),
        "moved 95th %": float(np.percentile(moved, 95)),
        "sure still %": share(kept, len(moved)),
    }
