"""Sound: speech or none, its embedding for wake words, notes."""

from __future__ import annotations

import functools
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.packages import fetch, photographs
from benchmarks.packages.embedding import neighbours
from benchmarks.packages.net import Figure, Net, Pool, Sample, fixed, share
from benchmarks.packages.running import Outputs, Runner

_SILERO, _WAKEWORD, _PITCH = "silero-vad==6.2.3", "openwakeword==0.4.0", "basic-pitch==0.4.0"


def nets() -> Iterator[Net]:
    """Nets of sound."""
    yield Net("silero_vad", _SILERO, "MIT", "speech or none", _vad_model, _stretches, _speech, _speech_score)
    yield Net(
        "wakeword", _WAKEWORD, "Apache-2.0", "embedding of speech", _embedding_model, _spoken, _embedding,
        neighbours, judges=120,
    )  # fmt: skip
    yield Net(
        "basic_pitch", _PITCH, "Apache-2.0", "notes", _pitch_model, _chords, _notes, _notes_score, judges=40
    )


@functools.cache
def _recording() -> np.ndarray:
    """The speech of the corpus, 16,000 samples a second, from -1 to 1."""
    path = photographs.folder("ONNXQ_CORPUS") / "data" / "speech" / "test.wav"
    with wave.open(str(path)) as recording:
        return np.frombuffer(recording.readframes(-1), np.int16).astype(np.float32) / 32768


def _noisy(sound: np.ndarray, number: int) -> np.ndarray:
    """It, every other time with noise of a third of its own strength."""
    random = np.random.default_rng(number)
    strength = float(sound.std()) / 3 if number % 2 else 0.0
    return np.asarray(sound + strength * random.standard_normal(sound.shape), np.float32)


# --- speech or none -------------------------------------------------------------------------------

_WINDOW, _BEFORE, _COUNT = 512, 64, 24


def _vad_model() -> Path:
    source = fetch.from_pypi(_SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx")
    return fixed(
        source, fetch.folder_of(_SILERO) / "sequence_fixed.onnx", {"input": (_COUNT, _WINDOW + _BEFORE)}
    )


def _stretches() -> Pool:
    """Stretches of 24 windows, 0.8 s, each with 64 samples of the one before."""
    length = _WINDOW * _COUNT

    def make(number: int) -> Sample:
        start = _BEFORE + number * length
        sound = _noisy(_recording()[start - _BEFORE : start + length], number)
        windows = [sound[place * _WINDOW : (place + 1) * _WINDOW + _BEFORE] for place in range(_COUNT)]
        state = np.zeros((1, 1, 128), np.float32)
        return Sample({"input": np.stack(windows), "h": state, "c": state})

    return Pool.of(range((len(_recording()) - _BEFORE) // length), make, str)


def _speech(outputs: Outputs, _: Sample) -> np.ndarray:
    return outputs["speech_probs"].astype(np.float64)


def _speech_score(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], _: Sequence[Any]) -> Figure:
    one, other = np.concatenate(exact), np.concatenate(given)
    return {
        "decided alike %": share(int(((one >= 0.5) == (other >= 0.5)).sum()), len(one)),
        "of": len(one),
        "mean change": float(np.abs(one - other).mean()),
    }


# --- an embedding of speech -------------------------------------------------------------------------


def _of_wakeword(name: str) -> Path:
    return fetch.from_pypi(_WAKEWORD, f"openwakeword/resources/models/{name}.onnx")


def _embedding_model() -> Path:
    target = fetch.folder_of(_WAKEWORD) / "embedding_fixed.onnx"
    return fixed(_of_wakeword("embedding_model"), target, {"input_1": (1, 76, 32, 1)})


def _spoken() -> Pool:
    """Windows of 76 frames of 10 ms, two a second."""
    loud = _noisy(_recording(), 0) * 32768
    (frames,) = Runner(_of_wakeword("melspectrogram"))({"input": loud[None]}).values()
    frames = frames.reshape(-1, 32) / 10 + 2

    def make(start: int) -> Sample:
        return Sample({"input_1": frames[None, start : start + 76, :, None].astype(np.float32)})

    return Pool.of(range(0, len(frames) - 76, 25), make, lambda start: start // 100)


def _embedding(outputs: Outputs, _: Sample) -> np.ndarray:
    (values,) = outputs.values()
    return values.ravel().astype(np.float64)


# --- notes ------------------------------------------------------------------------------------------

_RATE, _SAMPLES, _FRAMES, _HOP = 22050, 43844, 172, 256
_LOWEST = 27.5  # Hz


def _pitch_model() -> Path:
    source = fetch.from_pypi(_PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx")
    return fixed(
        source, fetch.folder_of(_PITCH) / "nmp_fixed.onnx", {"serving_default_input_2:0": (1, _SAMPLES, 1)}
    )


def _chords() -> Pool:
    """Two seconds of fading notes with overtones; true are the frames in which each of 88 keys sounds."""

    def make(number: int) -> Sample:
        random = np.random.default_rng(number)
        time = np.arange(_SAMPLES) / _RATE
        sound, truth = np.zeros(_SAMPLES), np.zeros((_FRAMES, 88), bool)
        for _ in range(int(random.integers(3, 9))):
            key, start, length = (
                int(random.integers(20, 70)),
                random.uniform(0, 1.6),
                random.uniform(0.2, 0.9),
            )
            since = time - start
            shape = np.where((since > 0) & (since < length), np.exp(-random.uniform(1, 4) * since.clip(0)), 0)
            for overtone in range(1, 7):
                pitch = _LOWEST * 2 ** (key / 12) * overtone
                strength = random.uniform(0.3, 1) / overtone
                sound += strength * shape * np.sin(2 * np.pi * pitch * time) * (pitch < _RATE / 2)
            truth[int(start * _RATE / _HOP) : int(min(start + length, 2) * _RATE / _HOP), key] = True
        sound = 0.5 * sound / np.abs(sound).max() + 0.002 * random.standard_normal(_SAMPLES)
        return Sample({"serving_default_input_2:0": sound[None, :, None].astype(np.float32)}, truth)

    return Pool.of(range(128), make, str)


def _notes(outputs: Outputs, _: Sample) -> np.ndarray:
    return np.asarray(outputs["StatefulPartitionedCall:1"][0] >= 0.3)


def _notes_score(exact: Sequence[np.ndarray], given: Sequence[np.ndarray], truths: Sequence[Any]) -> Figure:
    """Frames of keys: how many of the float net's are kept, and how good all are."""
    one, other, truth = np.stack(exact), np.stack(given), np.stack(truths)
    return {
        "kept %": share(int((one & other).sum()), int(one.sum())),
        "of": int(one.sum()),
        "new": int((other & ~one).sum()),
        "F1 %": share(2 * int((other & truth).sum()), int(other.sum() + truth.sum())),
    }
