"""What is known of a message that no rule repairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from onnxq.base.catalogue import table


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """A message.

    Attributes:
        seen: it, as it is printed.
        do: the cause and what to do, behind a colon where both are said.
        costs: what that costs.
        mark: a regular expression for what no other message has, in upper or lower case, which is looked for
            in whatever is pasted; "": the words of `seen` are compared.
        general: how little it says: 1 of a kind of fault, 2 only that there is one; what says more goes
            before it.
    """

    seen: str
    do: str
    costs: str
    mark: str = ""
    general: Literal[0, 1, 2] = 0


KNOWN: Mapping[str, KnownMessage] = {name: KnownMessage(**row) for name, row in table("messages").items()}
"""By a name."""
