"""YAML text as a tree of nodes, each with its line, within bounds.

Invariant: whatever the text, this returns in time and memory bounded by the constants below, or
adds a fault; aliases are shared, and weighed as if they were written out, so that no small file can
grow into a large one. Plain words keep their spelling: `3.10` is the text "3.10", `yes` is "yes".
Nothing here knows what a pipeline is, and no tag ever constructs an object.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from hub.wire.base import plain_text
from hub.wire.problem import Fault

MAX_BYTES = 2**20  # as Submit.pipeline: a thousand times what people write by hand
MAX_DEPTH = 12  # the deepest valid file has 7 levels; more only costs stack
MAX_WEIGHT = 4 * 2**20  # characters, aliases and matrices written out: what a run may take in the store
NODE_WEIGHT = 64  # one node costs about what 64 characters do
MAX_FAULTS = 50  # more than anybody mends at once
MAX_WORD = 60  # characters of a word that are compared or shown: comparing takes their square

Kind = Literal["mapping", "list", "text", "number", "boolean", "empty"]

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TAG = "tag:yaml.org,2002:"
# Not one of them means anything here; the YAML reader would refuse some of them without a line.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
# PyYAML's reader in C is 20 times as fast; the one in Python reads the same language.
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value of the file. `line` counts from 1; `weight` is in characters, aliases written out."""

    kind: Kind
    line: int
    text: str = ""  # of a text, number or boolean, as it was written
    items: tuple["Node", ...] = ()
    entries: Mapping[str, "Node"] = field(default_factory=dict)
    key_lines: Mapping[str, int] = field(default_factory=dict)
    weight: int = NODE_WEIGHT


class Faults:
    """The faults found so far: no two the same, at most MAX_FAULTS."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int | None], Fault] = {}

    def add(self, path: str, text: str, line: int | None, nearest: str | None = None) -> None:
        """Note a fault at `path`, unless it is known already or the bound is reached."""
        path, text = (plain_text(words, 500).replace("\n", " ") for words in (path, text))
        if len(self._found) < MAX_FAULTS:
            self._found.setdefault(
                (path, text, line), Fault(path=path, text=text, line=line, nearest=nearest)
            )

    def nearest(self, word: str, valid: Iterable[str]) -> str | None:
        """The valid word that `word` was most likely meant to be; None: none is near, or no fault is kept."""
        if len(self._found) == MAX_FAULTS:
            return None
        near = difflib.get_close_matches(word[:MAX_WORD], list(valid), n=1, cutoff=0.6)
        return near[0] if near else None

    def under(self, path: str) -> bool:
        """Whether `path` or something below it has a fault."""
        return any(known == path or known.startswith((path + ".", path + "[")) for known, _, _ in self._found)

    def listed(self) -> list[Fault]:
        """All of them, in the order of the file; faults of the whole file first."""
        return sorted(self._found.values(), key=lambda fault: fault.line or 0)

    def __bool__(self) -> bool:
        return bool(self._found)


def join(path: str, key: str) -> str:
    """The path of `key` below `path`."""
    return f"{path}.{key}" if path else key


def quoted(word: str) -> str:
    """A word of the file, safe and short enough for a sentence."""
    return f"`{plain_text(word, MAX_WORD)}`"


class _TooMuch(Exception):
    """The text passes a bound; the fault is noted, and reading ends."""


def read(text: str, faults: Faults) -> Node | None:
    """The tree of the one document in `text`; None: it cannot be read at all, and `faults` says why."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        faults.add("", f"the file has {size} bytes; {MAX_BYTES} are the most", None)
        return None
    if found := _UNREADABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        faults.add("", f"holds the character U+{ord(found[0]):04X}, which has no place in a file", line)
        return None
    try:
        return _Composer(iter(yaml.parse(text, Loader=_LOADER)), faults).document()
    except _TooMuch:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(filter(None, (error.context, error.problem)))
        faults.add("", f"is not YAML: {why}", mark.line + 1 if mark else None)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an escape such as "\Uffffffff"
        faults.add("", f"is not YAML: {str(error).splitlines()[0] if str(error) else 'cannot be read'}", None)
    return None


class _Composer:
    """Builds nodes from YAML events; its depth is bounded, so its recursion is."""

    def __init__(self, events: Iterator[Event], faults: Faults) -> None:
        self._events = events
        self._faults = faults
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node | None:
        root = None
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    self._faults.add("", "holds a second document; one file is one pipeline", _line(event))
                    return None
                root = self._node(next(self._events), "", 0)
            elif isinstance(event, DocumentEndEvent):
                self._anchors.clear()
        if root is None:
            self._faults.add("", "is empty", 1)
        return root

    def _node(self, event: Event, path: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._stop(path, f"is nested more than {MAX_DEPTH} levels deep", event)
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        if isinstance(event, ScalarEvent):
            node = self._scalar(event, path)
        elif isinstance(event, SequenceStartEvent):
            self._refuse_tag(event.tag, "seq", path, event)
            node = self._list(event, path, depth)
        else:
            assert isinstance(event, MappingStartEvent)
            self._refuse_tag(event.tag, "map", path, event)
            node = self._mapping(event, path, depth)
        if node.weight > MAX_WEIGHT:
            self._stop(path, "is too large with its aliases written out", event)
        if event.anchor is not None:  # noted only now: an alias within itself is unknown, never a loop
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: AliasEvent, path: str) -> Node:
        name = event.anchor or ""
        node = self._anchors.get(name)
        if node is None:
            near = self._faults.nearest(name, self._anchors)
            self._faults.add(path, f"no anchor {quoted(name)} stands before this", _line(event), near)
            return Node(kind="empty", line=_line(event))
        return node

    def _scalar(self, event: ScalarEvent, path: str) -> Node:
        kind: Kind = "text"
        text = event.value
        if event.tag not in (None, "!", _TAG + "str"):
            self._refuse_tag(event.tag, "str", path, event)
        elif event.tag is None and _plain(event):
            if text in _NULL:
                kind = "empty"
            elif text in _BOOLEAN:
                kind = "boolean"
            elif _NUMBER.fullmatch(text):
                kind = "number"
        return Node(kind=kind, line=_line(event), text=text, weight=NODE_WEIGHT + len(text))

    def _list(self, start: Event, path: str, depth: int) -> Node:
        items: list[Node] = []
        weight = NODE_WEIGHT
        while not isinstance(event := next(self._events), SequenceEndEvent):
            item = self._node(event, f"{path}[{len(items)}]", depth + 1)
            items.append(item)
            weight += item.weight
            if weight > MAX_WEIGHT:
                self._stop(path, "is too large with its aliases written out", event)
        return Node(kind="list", line=_line(start), items=tuple(items), weight=weight)

    def _mapping(self, start: Event, path: str, depth: int) -> Node:
        entries: dict[str, Node] = {}
        lines: dict[str, int] = {}
        merged: list[tuple[Node, int]] = []
        weight = NODE_WEIGHT
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._node(event, path, depth + 1)
            # The line of a key is where it stands, even if its word comes from an anchor elsewhere.
            value = self._node(next(self._events), join(path, key.text), depth + 1)
            weight += key.weight + value.weight
            if weight > MAX_WEIGHT:
                self._stop(path, "is too large with its aliases written out", event)
            if isinstance(event, ScalarEvent) and _plain(event) and key.text == "<<":
                merged.append((value, _line(event)))
            elif key.kind in ("mapping", "list", "empty"):
                self._faults.add(path, f"has a key that is not a word but {_A[key.kind]}", _line(event))
            elif key.text in entries:
                first = lines[key.text]
                self._faults.add(
                    join(path, key.text), f"is written twice; the first stands on line {first}", _line(event)
                )
            else:
                entries[key.text], lines[key.text] = value, _line(event)
        for value, line in merged:
            self._merge(value, line, path, entries, lines)
        return Node(kind="mapping", line=_line(start), entries=entries, key_lines=lines, weight=weight)

    def _merge(
        self, value: Node, line: int, path: str, entries: dict[str, Node], lines: dict[str, int]
    ) -> None:
        """Carry out `<<: *anchor`: what stands in the mapping itself, or came first, wins."""
        for source in value.items if value.kind == "list" else (value,):
            if source.kind != "mapping":
                self._faults.add(join(path, "<<"), "merges mappings only, as `<<: *anchor`", line)
                continue
            for key, node in source.entries.items():
                if key not in entries:
                    entries[key], lines[key] = node, source.key_lines[key]

    def _refuse_tag(self, tag: str | None, usual: str, path: str, event: Event) -> None:
        if tag not in (None, "!", _TAG + usual):
            text = tag.replace(_TAG, "!!")
            self._faults.add(path, f"has the tag {quoted(text)}; tags mean nothing here", _line(event))

    def _stop(self, path: str, text: str, event: Event) -> None:
        self._faults.add(path, text, _line(event))
        raise _TooMuch


_A: Mapping[Kind, str] = {
    "mapping": "a mapping",
    "list": "a list",
    "text": "text",
    "number": "a number",
    "boolean": "true or false",
    "empty": "empty",
}


def a(kind: Kind) -> str:
    """A kind of node, as a sentence names it."""
    return _A[kind]


def _plain(event: ScalarEvent) -> bool:
    """Whether a word stands without quotes; the reader in C says "" where the other says None."""
    return not event.style


def _line(event: Event) -> int:
    assert event.start_mark is not None  # whatever is read from a text has a mark
    return int(event.start_mark.line) + 1
