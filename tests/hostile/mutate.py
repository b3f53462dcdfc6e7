"""Mutations: of a model's messages, of a document's values, of any file's bytes. All by a generator with a seed."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor as Field

NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    16,
    64,
    99,
    255,
    1000,
    1 << 16,
    -(1 << 31),
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 1e39, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "y", "w", "N", "Relu", "Conv", "Loop", "nobody", "a" * 300, "\x00", "é\u202e", "../x", "/dev/zero", "com.microsoft", "ai.onnx",
         "NaN", "1e999", "-1", "9" * 400, " ", "\n", "float32", "int8", "null", "{}", "[]")  # fmt: skip


def spoiled(data: bytes, dice: random.Random) -> bytes:
    """A file with a few of its bytes changed, or cut, or with a part of it once more."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        place = dice.randrange(len(made) + 1) if made else 0
        match dice.randrange(6):
            case 0 | 1 if place < len(made):
                made[place] = dice.randrange(256)
            case 2 if place < len(made):
                made[place] ^= 1 << dice.randrange(8)
            case 3:
                del made[place : place + dice.choice((1, 2, 8, 100))]
            case 4:
                made[place:place] = bytes(dice.randrange(256) for _ in range(dice.choice((1, 2, 8))))
            case _:
                other = dice.randrange(len(made) + 1)
                made[place:place] = made[other : other + dice.choice((4, 32, 200))]
    return bytes(made[: dice.randrange(len(made) + 1)]) if dice.random() < 0.05 else bytes(made)


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type == Field.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from _messages(part)


def changed_model(model: onnx.ModelProto, dice: random.Random) -> onnx.ModelProto:
    """A model with one to three of its fields changed, removed, doubled or exchanged."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    texts = [
        *TEXTS,
        *(name for node in made.graph.node for name in (*node.input, *node.output, node.op_type)),
    ]
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        for _attempt in range(20):
            if _change(dice.choice(list(_messages(made))), texts, dice):
                break
    return made


def _change(message: Any, texts: list[str], dice: random.Random) -> bool:
    """Changes a field of a message, mostly one that it has; returns whether there was one."""
    known = [field for field, _ in message.ListFields()]
    field = dice.choice(known if known and dice.random() < 0.85 else message.DESCRIPTOR.fields)
    if field.name in ("doc_string", "metadata_props"):
        return False
    value = getattr(message, field.name)
    if field.is_repeated:
        return _change_list(field, value, texts, dice)
    if field.type == Field.TYPE_MESSAGE:
        if dice.random() < 0.5:
            message.ClearField(field.name)
        else:
            value.SetInParent()
        return True
    if dice.random() < 0.15:
        message.ClearField(field.name)
        return True
    try:
        setattr(message, field.name, _other(field, value, texts, dice))
    except (TypeError, ValueError):
        return False
    return True


def _change_list(field: Any, value: Any, texts: list[str], dice: random.Random) -> bool:
    if not len(value):
        if field.type != Field.TYPE_MESSAGE and dice.random() < 0.5:
            try:
                value.append(_other(field, None, texts, dice))
            except (TypeError, ValueError):
                return False
            return True
        return False
    place = dice.randrange(len(value))
    match dice.randrange(5):
        case 0:
            del value[place]
        case 1:
            value.append(value[place])
        case 2 if len(value) > 1:
            kept = (
                list(value) if field.type != Field.TYPE_MESSAGE else [copy.deepcopy(part) for part in value]
            )
            dice.shuffle(kept)
            del value[:]
            value.extend(kept)
        case _ if field.type != Field.TYPE_MESSAGE:
            try:
                value[place] = _other(field, value[place], texts, dice)
            except (TypeError, ValueError):
                return False
        case _:
            return False
    return True


def _other(field: Any, value: Any, texts: list[str], dice: random.Random) -> Any:
    if field.type in (Field.TYPE_STRING, Field.TYPE_BYTES):
        if field.type == Field.TYPE_BYTES:
            return spoiled(value or b"", dice) if dice.random() < 0.6 else dice.choice(texts).encode()
        return dice.choice(texts)
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return dice.choice(FLOATS)
    if field.type == Field.TYPE_ENUM:
        return dice.randrange(0, 24)
    return dice.choice((*NUMBERS, (value or 0) + dice.choice((-1, 1))))


def changed_json(data: bytes, dice: random.Random) -> bytes:
    """A document with a few of its values others, gone, or of another kind."""
    document = json.loads(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        holder, key = dice.choice([*_places(document)] or [({}, "x")])
        _put(holder, key, dice)
    return json.dumps(document).encode()


def changed_toml(data: bytes, dice: random.Random) -> bytes:
    """A text with a few of its lines others."""
    lines = data.decode().split("\n")
    for _ in range(dice.choice((1, 1, 2, 4))):
        place = dice.randrange(len(lines))
        key, sign, _value = lines[place].partition("=")
        match dice.randrange(4):
            case 0:
                del lines[place]
                lines = lines or [""]
            case 1:
                lines.insert(place, dice.choice(lines))
            case _ if sign:
                lines[place] = f"{key}= {_toml(dice)}"
            case _:
                lines[place] = dice.choice(
                    (f"[{dice.choice(TEXTS)}]", "[[layers]]", f"z = {_toml(dice)}", "x")
                )
    return "\n".join(lines).encode("utf-8", "replace")


def _toml(dice: random.Random) -> str:
    return dice.choice((
        json.dumps(dice.choice(TEXTS)), str(dice.choice(NUMBERS)), str(dice.choice(FLOATS)), "true", "[]", "{}", "[1, 'a']", "{a = 1}",
        "[[[1]]]", "1979-05-27", "9" * 400, "'", "",
    ))  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _put(holder: Any, key: Any, dice: random.Random) -> None:
    choice = dice.randrange(7)
    old = holder.get(key) if isinstance(holder, dict) else holder[key]
    if choice == 0:
        holder.pop(key) if isinstance(holder, list) or key in holder else None
    elif choice == 1 and isinstance(old, list):
        old += old[:50]
    elif choice == 2 and isinstance(holder, dict):
        holder[dice.choice(TEXTS)] = old
    else:
        holder[key] = dice.choice((
            None, True, [], {}, [None], {"a": []}, [[[]]], dice.choice(TEXTS), dice.choice(NUMBERS), dice.choice(FLOATS), 10**400,
        ))  # fmt: skip


def changed_npz(data: bytes, dice: random.Random) -> bytes:
    """An archive with one member changed: its bytes, its name, or it is gone."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w") as written:
        names = archive.namelist()
        chosen = dice.choice(names)
        for name in names:
            held = archive.read(name)
            if name == chosen:
                match dice.randrange(4):
                    case 0:
                        continue
                    case 1:
                        name = dice.choice(("x.npy", "a/b.npy", "x", "../x.npy", dice.choice(names)))
                    case _:
                        held = spoiled(held, dice)
            written.writestr(name, held)
    return made.getvalue()


CHANGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": changed_json, ".toml": changed_toml, ".npz": changed_npz,
}  # fmt: skip


def changed_document(name: str, data: bytes, dice: random.Random) -> bytes:
    """A document that is almost right."""
    by_kind = CHANGES.get(name[name.rindex(".") :])
    return spoiled(data, dice) if by_kind is None or dice.random() < 0.25 else by_kind(data, dice)
