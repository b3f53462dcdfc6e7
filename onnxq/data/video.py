"""Frames of videos, evenly spaced, as images in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.data.lists import Entry

SUFFIXES = frozenset((".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg"))
"""File name suffixes of the videos that are read, lower case."""

FRAMES = 640
"""How many frames of all videos are taken at most: 512 that calibrate, and an eighth and more beside them."""


class Frames:
    """The frames of videos, as image files that go with this object.

    Attributes:
        entries: the frames, each with its video and its number there, from 0.
        notes: how many there are, where not all are taken.
    """

    def __init__(self, videos: Sequence[Path]) -> None:
        """Unpacks the frames.

        Raises:
            UserError: a video cannot be read, or PyAV is not there.
        """
        self._folder = interrupts.Folder()
        self.entries: list[Entry] = []
        self.notes: list[str] = []
        share = max(1, FRAMES // len(videos))
        for index, video in enumerate(videos):
            before = len(self.entries)
            for number, frame in _frames(video, share, self.notes):
                path = Path(self._folder.name) / f"{index}-{number}.png"
                frame.to_image().save(path, compress_level=1)
                self.entries.append(Entry(f"{video} frame {number}", f"{video} frame {number}", path))
            if len(self.entries) == before:
                raise UserError(
                    f"the video {str(video)!r} has zero frames", hint="remove or replace the file"
                )


def _frames(video: Path, most: int, notes: list[str]) -> Iterator[tuple[int, Any]]:
    """So many frames of a video, evenly spaced, with their numbers."""
    try:
        import av
    except ImportError as error:
        raise UserError(
            f"{str(video)!r} is read by the package av, which is not installed",
            hint="pip install av; or unpack its frames into a folder of images",
        ) from error
    try:
        with av.open(str(video)) as container:
            total = sum(packet.size > 0 for packet in container.demux(container.streams.video[0]))
        wanted = {int((number + 0.5) * total / most) for number in range(most)}
        if total > most:
            notes.append(noted("left-out.video", total=total, video=str(video), taken=most))
        with av.open(str(video)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for number, frame in enumerate(container.decode(video=0)):
                if number in wanted:
                    yield number, frame
    except (av.FFmpegError, IndexError) as error:
        raise UserError(
            f"{str(video)!r} is no video that is read: {error}", hint="convert it to .mp4"
        ) from error
