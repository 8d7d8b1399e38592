"""Server-sent events, as the WHATWG standard reads them, from bytes that come in any pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_EVENT_BYTES = 32 * 2**20  # a run of 500 jobs that all wait, with every runner's lacks, is a tenth


class EventTooLarge(Exception):
    """One event passed the bound: the other end is no hub, or a broken one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is the last id the stream gave, "" before the first."""

    name: str
    data: str
    id: str


@dataclass(slots=True)
class Parser:
    """Feed it bytes; it gives the events that are whole. A cut-off event at the end is dropped."""

    last_id: str = ""
    _rest: bytes = b""
    _name: str = ""
    _data: list[str] = field(default_factory=list)
    _size: int = 0
    _skip_newline: bool = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that `piece` completes. Raises EventTooLarge."""
        if self._skip_newline and piece:
            piece = piece.removeprefix(b"\n")
            self._skip_newline = False
        rest = self._rest + piece
        if rest.endswith(b"\r"):
            self._skip_newline = True
        lines = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) + self._size > MAX_EVENT_BYTES:
            raise EventTooLarge
        for line in lines:
            event = self._line(line.decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        return None

    def _dispatch(self) -> Event | None:
        name, data = self._name or "message", "\n".join(self._data)
        was_empty = not self._data
        self._name, self._data, self._size = "", [], 0
        return None if was_empty and name != "end" else Event(name=name, data=data, id=self.last_id)
