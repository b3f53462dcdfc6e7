"""Collect the tensors that a Loop appends to a sequence as its rows.

`torch.jit.script` writes a list that a loop fills as a sequence that it carries. TensorRT has no importer for
sequences:

    No importer registered for op: SequenceEmpty. (...) UNSUPPORTED_NODE: false

    before    s = Loop(n, true, SequenceEmpty()) { s -> SequenceInsert(s, v) };  y = ConcatFromSequence(s)
    after     rows = Loop(n, true) { -> v };  y = ConcatFromSequence(SplitToSequence(rows))

`sequences_to_tensors` then reads the rows themselves. The list has to be empty before, only appended to, and not read
inside. All its tensors have one shape, which the Loop sees to. Equal bit for bit.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, made_by, op, remake, rule


@rule("Loop", stage="clean")
def loop_sequence_to_rows(node: Node) -> dict[int, Value] | None:
    trip, going, *carried = node.inputs
    body = node.body("body")
    begun = [place for place, one in enumerate(carried) if made_by(one, "SequenceEmpty") is not None]
    if not begun:
        return None
    rows = [_appended(body.inputs[2 + place], body.outputs[1 + place]) for place in begun]
    kept = [place for place in range(len(carried)) if place not in begun]
    collected = body.outputs[1 + len(carried) :]
    part = body.reduced(
        [*body.inputs[:2], *(body.inputs[2 + place] for place in kept)],
        [body.outputs[0], *(body.outputs[1 + place] for place in kept), *collected, *rows],
    )
    count = len(node.outputs)
    made = remake(node, trip, going, *(carried[place] for place in kept), outputs=count, body=part)
    results = made if count > 1 else (made,)
    others = [*kept, *range(len(carried), count)]
    answer: dict[int, Value] = dict(zip(others, results, strict=False))
    for place, stacked in zip(begun, results[len(others) :], strict=True):
        answer[place] = op.SplitToSequence(stacked, axis=0, keepdims=0)
    return answer


def _appended(given: Tensor, gives: Tensor) -> Tensor:
    """What an iteration appends to the sequence that it is given.

    Raises:
        Skip: it does something else with it.
    """
    insert = made_by(gives, "SequenceInsert")
    if insert is None or insert.inputs[0] != given or insert.inputs[1] is None:
        raise Skip(f"what it does with the sequence {given.name!r} is not to append a tensor")
    if len(insert.inputs) > 2 and insert.inputs[2] is not None:
        raise Skip(f"it inserts into the sequence {given.name!r} at a position")
    if given.users != (insert,) or given.is_output:
        raise Skip(f"it reads the sequence {given.name!r} that it appends to")
    return insert.inputs[1]


_NET = """<ir_version: 8, opset_import: ["" : %d]>
    g (float[N, 3] x, float[3] h) => (%s) <int64 zero = {0}, bool on = {1}, int64[1] all = {0}> {
        e = SequenceEmpty ()  n0 = Shape (x)  n = Gather (n0, zero)
        %s = Loop (n, on, h, e) <body = b (int64 i, bool c, float[3] a, seq(float[3]) q)
            => (bool d, float[3] r, seq(float[3]) t%s) {
            d = Identity (c)  v = Gather (x, i)  r = Mul (v, a)  w = Exp (r)  t = SequenceInsert (q, w%s) %s }>
        %s }"""


def _net(after: str = "", outputs: str = "y, z", opset: int = 13, place: str = "", more: str = "") -> str:
    given, named = ("", "z, s") if not more else (", float[3] u", "z, s, k")
    return _NET % (opset, outputs, named, given, place, more, after)


EXAMPLES = [
    Fires(
        _net("y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"),
        gone="SequenceInsert",
        after=("sequences_to_tensors",),
        becomes="""y: float32[?, 3]; n0 = Shape (x); n = Gather (n0, 0)
        z, y = Loop <body = (_3, _1, _5) => (_2, _6, _7) { _2 = Identity (_1); _4 = Gather (x, _3)
        _6 = Mul (_4, _5); _7 = Exp (_6) }> (n, bool True, h)""",
    ),
    Fires(
        _net("y = ConcatFromSequence <axis = 0> (s)", "y, k", more="u = Neg (w)"),
        gone="SequenceInsert",
        after=("sequences_to_tensors",),
    ),
    Fires(_net("y = SequenceAt (s, zero)", "y", 17), gone="SequenceInsert", after=("sequences_to_tensors",)),
    Skips(_net("y = SequenceAt (s, zero)", place=", zero"), because="at a position"),
    Skips(
        _net(
            "y = SequenceAt (s, zero)",
            "y, k",
            more="j = SequenceLength (q)  f = Cast <to = 1> (j)  u = Add (r, f)",
        ),
        because="it reads the sequence",
    ),
]
