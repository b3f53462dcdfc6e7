"""The inputs on which both sides of a snippet are run."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np

from onnxq.formats import INT8
from onnxq.graph.snippet import SnippetInputs
from onnxq.graph.types import Dim, float_info, limits
from onnxq.rewrite.mining import Mined
from onnxq.run.ort import Feeds

# Sizes tried for dynamic dimensions: a number for all of them, or None for different ones.
_SIZES = (3, 1, None, 8, 33, 67, 130, 60, 120, 2)  # multiples of 10 and 12: a Reshape divides
# And last, of a batch of 1: some graphs run with no other one.
_OF_ONE = (5, None)
# Inputs of this many elements are run several times with different edge values.
_SMALL = 1 << 12
# Of more elements than this, special values are also tried as one of four: many in every row.
_SPARSE = 16
# A dynamic dimension is not given a size that makes an input larger than this, or than two samples.
_MAX_ELEMENTS = 1 << 22
# Nor larger than this where no dimension has a size: mostly such sizes do not fit those of other inputs.
_MAX_UNKNOWN = 1 << 18
# The same for a size that stands in the graph, one input and all runs together.
_MAX_MINED, _MAX_MINED_TOTAL = 1 << 20, 3 << 19
# Integers that say how much is computed go up to here.
_FEW = 64
# Values that stand in the graph are dealt out in so many inputs at most.
_MAX_TURNS = 24

# How a sum that is reordered is tried: the mean far over the deviation, tiny, huge.
_SCALES = {"far": (1.0, 1e3), "tiny": (1e-6, 0.0), "huge": (1e6, 0.0)}

Binding = Sequence[tuple[int, ...]]


def is_free(inputs: SnippetInputs, assumed: Mapping[str, int]) -> bool:
    """Whether a dimension of an input has no size, not even an assumed one."""
    return any(
        dim is None or (isinstance(dim, str) and dim not in assumed)
        for _, _, shape in inputs
        for dim in shape
    )


def bindings(inputs: SnippetInputs, assumed: Mapping[str, int]) -> Iterator[list[tuple[int, ...]]]:
    """Sizes of each input, for several choices of the dynamic dimensions."""
    if not is_free(inputs, assumed):
        yield [tuple(assumed[d] if isinstance(d, str) else d or 0 for d in shape) for _, _, shape in inputs]
        return
    for size, batch in [*((size, None) for size in _SIZES), *((size, 1) for size in _OF_ONE)]:
        # In attention they are batch, queries, keys and past: the keys are the queries and the past.
        different = itertools.cycle((4, 2, 7, 5, 3))
        sizes: dict[str, int] = dict(assumed)
        chosen: list[tuple[int, ...]] = []
        for _, _, shape in inputs:
            dims = []
            for axis, dim in enumerate(shape):
                own = (batch if axis == 0 else None) or size
                if isinstance(dim, int):
                    dims.append(dim)
                elif isinstance(dim, str):
                    if dim not in sizes:
                        sizes[dim] = own or next(different)
                    dims.append(sizes[dim])
                else:
                    dims.append(own or next(different))
            chosen.append(tuple(dims))
        static = [
            int(np.prod([d for d in shape if isinstance(d, int)], dtype=np.int64)) for _, _, shape in inputs
        ]
        if all(
            int(np.prod(dims, dtype=np.int64)) <= max(_MAX_ELEMENTS if least > 1 else _MAX_UNKNOWN, 2 * least)
            for dims, least in zip(chosen, static, strict=True)
        ):
            yield chosen


def mined_bindings(
    inputs: SnippetInputs, assumed: Mapping[str, int], sizes: Iterable[int]
) -> Iterator[Binding]:
    """Sizes of each input where one dynamic dimension has a size of its own, or all have it."""
    free = {
        _symbol(dim, index, axis)
        for index, (_, _, shape) in enumerate(inputs)
        for axis, dim in enumerate(shape)
        if not isinstance(dim, int) and dim not in assumed
    }
    one_by_one: list[frozenset[object]] = [frozenset({symbol}) for symbol in sorted(free, key=str)]
    spent = 0
    for size in sizes:
        for chosen in [*one_by_one, *([frozenset(free)] if len(free) > 1 else [])]:
            binding = [
                tuple(
                    dim
                    if isinstance(dim, int)
                    else assumed[dim]
                    if dim in assumed and dim is not None
                    else size
                    if _symbol(dim, index, axis) in chosen
                    else 3
                    for axis, dim in enumerate(shape)
                )
                for index, (_, _, shape) in enumerate(inputs)
            ]
            counts = [int(np.prod(dims, dtype=np.int64)) for dims in binding]
            if max(counts) <= _MAX_MINED and spent + sum(counts) <= _MAX_MINED_TOTAL:
                spent += sum(counts)
                yield binding


def bytes_of(inputs: SnippetInputs, sizes: Binding) -> dict[str, int]:
    """How many bytes each input takes, before it is made."""
    return {
        name: dtype.itemsize * math.prod(dims) for (name, dtype, _), dims in zip(inputs, sizes, strict=True)
    }


def largest_dynamic(inputs: SnippetInputs, sizes: Binding) -> int:
    """The largest of the sizes of dynamic dimensions."""
    return max(
        size
        for (_, _, shape), dims in zip(inputs, sizes, strict=True)
        for dim, size in zip(shape, dims, strict=True)
        if not isinstance(dim, int)
    )


def _symbol(dim: Dim, index: int, axis: int) -> object:
    """What is one dimension: equal names are."""
    return dim if isinstance(dim, str) else (index, axis)


def feeds(
    inputs: SnippetInputs,
    sizes: Binding,
    *,
    full: bool,
    close: bool,
    small: bool,
    nan: bool = True,
) -> Iterator[Feeds]:
    """Inputs of several kinds: ordinary, boundary and large values, equal ones, NaN and infinities.

    Integers are also tried as 0 and 1: they may select from two things. Where the results are only to be
    close, floats are also far from zero, tiny and huge.

    `small`: integers of 32 and 64 bits stay small, and are not negative. `nan`: whether floats may be NaN;
    they are infinite instead.
    """
    if not inputs:  # constants compute the same each time
        yield {}
        return
    kinds = ["ordinary", "boundary", "special", "large", "ties"] if full else ["ordinary", "special"]
    if close:
        kinds += [*_SCALES]
    if any(dtype.kind in "iu" for _, dtype, _ in inputs):
        kinds.append("bits")
    counts = [int(np.prod(shape, dtype=np.int64)) for shape in sizes]
    if full and max(counts) > _SPARSE:
        kinds.append("dense")
    for position, kind in enumerate(kinds):
        turns: Iterable[tuple[int, int]] = [(0, 1)]
        if kind in ("boundary", "special") and sum(counts) <= _SMALL:
            # An input of few elements takes several turns to hold all edge values; and each edge of
            # one input meets the same (shift 0) and two other edges of the next.
            most = max((len(_edges(d, kind)) for _, d, _ in inputs if is_float(d)), default=8)
            turns = itertools.product(range(0, most, max(1, min(counts, default=1))), (1, 0, 2))
        for turn, shift in turns:
            made = {
                name: sample(
                    dtype,
                    shape,
                    "ordinary" if small and _is_wide(dtype) and kind != "bits" else kind,
                    position * 31 + turn + index * shift,
                )
                for index, ((name, dtype, _), shape) in enumerate(zip(inputs, sizes, strict=True))
            }
            yield made if nan else {name: _without_nan(array) for name, array in made.items()}


def probes(inputs: SnippetInputs, sizes: Binding, *, small: bool) -> Iterator[Feeds]:
    """Ordinary inputs, zeros, and integers of 0 and 1: what runs on none of them has no such sizes."""
    for kind in ("ordinary", "zeros", "bits"):
        if kind == "bits" and not any(dtype.kind in "iu" for _, dtype, _ in inputs):
            continue
        made = {}
        for index, ((name, dtype, _), shape) in enumerate(zip(inputs, sizes, strict=True)):
            own = "ordinary" if kind == "zeros" or (small and _is_wide(dtype) and kind != "bits") else kind
            values = sample(dtype, shape, own, index)
            made[name] = np.zeros_like(values) if kind == "zeros" and dtype.kind != "O" else values
        yield made


def tame(feeds: Feeds) -> Feeds:
    """The same inputs, with ones for what is not finite and for what overflows when it is squared."""
    return {
        name: np.where(np.abs(a.astype(np.float64)) <= float(limits(a.dtype)[1]) ** 0.5, a, a.dtype.type(1))
        if is_float(a.dtype)
        else a
        for name, a in feeds.items()
    }


def finite(feeds: Feeds) -> Feeds:
    """The same inputs, with ones for what is not finite."""
    return {
        name: np.where(np.isfinite(a), a, a.dtype.type(1)) if is_float(a.dtype) else a
        for name, a in feeds.items()
    }


def _without_nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), array.dtype.type(np.inf), array) if is_float(array.dtype) else array


def ascending(inputs: SnippetInputs, sizes: Binding) -> Feeds:
    """Ordinary inputs, of which the last elements of floats are the largest."""
    ordinary = {
        name: sample(dtype, shape, "ordinary", index)
        for index, ((name, dtype, _), shape) in enumerate(zip(inputs, sizes, strict=True))
    }
    return {
        name: np.sort(a, axis=None).reshape(a.shape) if is_float(a.dtype) else a
        for name, a in ordinary.items()
    }


def mined_feeds(inputs: SnippetInputs, sizes: Binding, numbers: Mined, *, small: bool) -> Iterator[Feeds]:
    """Inputs of the numbers that stand in the graph: scattered, alone among zeros, and nothing else."""
    values = {name: _values(numbers, dtype, small) for name, dtype, _ in inputs}
    most = max(map(len, values.values()), default=0)
    ordinary = {
        name: sample(dtype, shape, "ordinary", index)
        for index, ((name, dtype, _), shape) in enumerate(zip(inputs, sizes, strict=True))
    }
    least = min((ordinary[name].size for name in values if len(values[name])), default=0)
    several = len([name for name in values if len(values[name])]) > 1
    for turn in itertools.islice(range(0, most, max(1, least)), _MAX_TURNS):
        for shift in (0, 1) if several else (0,):
            yield {
                name: _dealt(values[name], array, turn + index * shift)
                for index, (name, array) in enumerate(ordinary.items())
            }
    large = sum(array.size for array in ordinary.values()) > 16 * _SMALL
    for threshold in numbers.thresholds[-3:] if large else numbers.thresholds:
        for sign in (1, -1) if threshold else (1,):
            filled = {name: _filled(array, sign * threshold, small) for name, array in ordinary.items()}
            yield filled
            if not threshold:
                continue
            alone = {name: _filled(array, 0.0, small) for name, array in ordinary.items()}
            for name, array in alone.items():
                if array.size and len(values[name]):
                    array.reshape(-1)[array.size // 2] = filled[name].reshape(-1)[0]
            yield alone


def _dealt(values: np.ndarray, array: np.ndarray, turn: int) -> np.ndarray:
    if not len(values):
        return array
    return np.resize(np.roll(values, -turn), array.size).reshape(array.shape).astype(array.dtype)


def _filled(array: np.ndarray, value: float, small: bool) -> np.ndarray:
    """A constant of an array's shape, where its type has such a value; else the array."""
    if array.dtype == np.dtype(bool):
        return np.full(array.shape, value > 0)
    if is_float(array.dtype):
        highest = float(limits(array.dtype)[1])
        return np.full(array.shape, min(max(value, -highest), highest), array.dtype)
    if array.dtype.kind not in "iu" or value != int(value):
        return array
    low, high = (0, _FEW) if small and _is_wide(array.dtype) else map(int, limits(array.dtype))
    return np.full(array.shape, int(value), array.dtype) if low <= value <= high else array


def _values(numbers: Mined, dtype: np.dtype, small: bool) -> np.ndarray:
    """The numbers of the graph, and their neighbours, that a type has."""
    low, high = limits(dtype) if is_float(dtype) or dtype.kind in "iu" else (0, 0)
    if is_float(dtype):
        with np.errstate(all="ignore"):
            floats = np.array(numbers.floats).astype(dtype)
            around = [floats]
            if dtype.isbuiltin == 1:
                around += [np.nextafter(floats, high), np.nextafter(floats, low)]
            near = np.concatenate(
                [sign * array for array in around for sign in (dtype.type(1), dtype.type(-1))]
            )
        finite: np.ndarray = near[np.isfinite(near)]
        return finite
    if dtype.kind in "iu":
        least = 0 if small and _is_wide(dtype) else int(low)
        most = min(_FEW, int(high)) if small and _is_wide(dtype) else int(high)
        return np.array([v for v in numbers.integers if least <= v <= most], dtype)
    return np.zeros(0, dtype)


def is_finite(feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether no input is NaN or infinite."""
    return all(bool(np.isfinite(a.astype(np.float64)).all()) for a in feeds.values() if is_float(a.dtype))


def is_extreme(feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether the square of an input overflows, or one is NaN."""
    floats = [array for array in feeds.values() if is_float(array.dtype)]
    return any(not (np.abs(a.astype(np.float64)) <= float(limits(a.dtype)[1]) ** 0.5).all() for a in floats)


def is_float(dtype: np.dtype) -> bool:
    """Whether a type is a float, bfloat16 among them."""
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)


def _is_wide(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" and dtype.itemsize >= 4


def sample(dtype: np.dtype, shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    """An array of a kind of values; the same for the same arguments."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == np.dtype(bool):
        return (_pool(count, seed) > 0).reshape(shape)
    if dtype.kind in "iu" and kind == "bits":
        return (_pool(count, seed) > 0).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        low, high = limits(dtype)
        if kind == "boundary":
            edges = np.array([low, high, 0, 1, int(high) - 1, int(low) + 1, 2], dtype)
            return np.resize(np.roll(edges, seed), count).reshape(shape)
        spread = {"ordinary": 1.0, "special": 3.0, "large": 60.0}.get(kind, 1.0)
        values = np.round(np.abs(_pool(count, seed)) * spread)
        if kind in ("special", "large", "ties") and dtype.kind == "i":
            values *= np.sign(_pool(count, seed + 1))
        integers: np.ndarray = values.astype(dtype).reshape(shape)
        return integers
    if not is_float(dtype):
        if dtype.kind == "O":
            return np.resize(np.array(["", "a", "onnx"], object), count).reshape(shape)
        return np.zeros(shape, dtype)
    scale = 20.0 if kind == "large" else 1.0
    pool = _pool(count, seed) * scale
    if kind in _SCALES:
        factor, offset = _SCALES[kind]
        highest = float(limits(dtype)[1]) ** 0.5
        least = 16 * float(float_info(dtype).tiny)
        pool = pool * min(max(factor, least), highest) + min(offset, highest)
    values = (np.round(pool) if kind == "ties" else pool).astype(dtype)
    if kind in ("boundary", "special", "dense"):
        edges = _edges(dtype, kind)
        few = count // 4 if kind == "dense" else count // 4096
        positions = np.arange(min(count, max(2 * len(edges), few)))
        if count > 2 * len(edges):  # scattered, so that a sum does not see all of them
            positions = (positions * 7919 + seed * 17) % count
        values[positions] = np.resize(np.roll(edges, seed), len(positions))
    return values.reshape(shape)


def _edges(dtype: np.dtype, kind: str) -> np.ndarray:
    low, high = (float(limit) for limit in limits(dtype))
    tiny = float(float_info(dtype).tiny)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 6.0, *map(float, reversed(INT8.ends))]
    least = float(float_info(dtype).smallest_subnormal)
    edges += [high, low, tiny, -tiny, tiny / 4, least, 1e30, 1e-30, -1e20, 1e-20]
    if kind == "special":
        edges = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    elif kind == "dense":
        edges = [np.nan, np.nan, np.inf, np.nan, -np.inf]
    elif high < 1e30:
        edges = [edge for edge in edges if abs(edge) <= high]
    return np.array(edges).astype(dtype)


def _pool(count: int, seed: int) -> np.ndarray:
    """`count` normal deviates; the same for the same seed."""
    numbers = _normal()
    start = (seed * 65537) % len(numbers)
    if start + count <= len(numbers):
        return numbers[start : start + count]
    if count <= len(numbers):
        return np.concatenate((numbers[start:], numbers[: start + count - len(numbers)]))
    return np.resize(np.concatenate((numbers[start:], numbers)), count)


@functools.cache
def _normal() -> np.ndarray:
    return np.random.default_rng(20260101).standard_normal(1 << 20).astype(np.float32)
