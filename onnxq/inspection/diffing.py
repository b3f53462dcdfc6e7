"""What differs between two runs, by their reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Unpack

from onnxq.analysis.diff.compared import compare_reports
from onnxq.analysis.diff.rows import RunDiff
from onnxq.analysis.reports import open_report
from onnxq.options.call_options import DiffOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options


@takes_options
def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    match: Sequence[str] = (),
    ops: Sequence[str] = (),
    **options: Unpack[DiffOptions],
) -> RunDiff:
    """What run B has otherwise than run A: accuracy, plan, scales, changes, repair, engine, files, settings.

    Args:
        a: `X.report.json` of run A, by this version of onnxq or an earlier one.
        b: that of run B.
        match: patterns (`*`, `?`, `[...]`): only what is of nodes, tensors or outputs that one of them fits.
        ops: only what is of nodes of these operators.
        options: `margins`: by how much a figure may be worse before that is said; or its fields as keywords
            of their own: `margin_db=0.2`.

    Returns:
        The rows, the worst first; `worse` says how many of them say that B is worse.

    Raises:
        UserError: a file cannot be read or is no report, or a margin makes no sense.
        TypeError: there is no such keyword.
    """
    asked = Options.of("diff", options)
    return compare_reports(open_report(a), open_report(b), asked.margins, match, ops)
