"""The reason why a job waits, in the form in which the store keeps it."""

import json
from dataclasses import dataclass

from hub.wire.base import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A reason as it was last stored, told as to one who sees all: for no other reader's eyes."""

    kind: str
    headline: str
    meaning: tuple[str, ...]  # `Cause.meaning`
    since_ms: int  # since when the kind had held; for a job that came later, since it came
    looked_ms: int

    def text(self) -> str:
        """As JSON."""
        return to_json({name: getattr(self, name) for name in self.__slots__})


def from_text(text: str | None) -> Stored | None:
    """What `Stored.text` made; None: nothing, or nothing that this hub understands."""
    try:
        found = json.loads(text or "null")
        return Stored(
            kind=str(found["kind"]),
            headline=str(found["headline"]),
            meaning=tuple(str(word) for word in found["meaning"]),
            since_ms=int(found["since_ms"]),
            looked_ms=int(found["looked_ms"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
