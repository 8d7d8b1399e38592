"""A stranger's XML as a small tree: only the elements that are asked for, within bounds.

What is not wanted is dropped while it is read, with all that is in it, so that memory follows what is
kept and not what was sent. A document type, an entity and a reference elsewhere are refused: none has
a place in a report, and each is a known way to make a reader burst. Never hand a file to another parser
first.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from hub.wire.base import plain_text

MAX_BYTES = 32 * 2**20  # of one file: some 100,000 tests, read in a few seconds
MAX_DEPTH = 100  # elements within one another; reports have five or six
MAX_TEXT = (
    65_536  # characters of one element's text that are held, half from its beginning, half from its end
)
MAX_ATTRIBUTES = 64  # of one element
PIECE_BYTES = 65_536  # read at a time
GAP = "\n… {} characters left out …\n"


class Unreadable(Exception):
    """The file is not such a report: its words say why."""


@dataclass(slots=True)
class Text:
    """A text that comes in pieces, of which the beginning and the end are kept: the end has the reason."""

    limit: int = MAX_TEXT
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    head_size: int = 0
    tail_size: int = 0
    dropped: int = 0

    def add(self, piece: str) -> None:
        """The next piece."""
        half = self.limit // 2
        room = half - self.head_size
        if room > 0:
            self.head.append(piece[:room])
            self.head_size += min(room, len(piece))
            piece = piece[room:]
        if piece:
            self.tail.append(piece)
            self.tail_size += len(piece)
            if self.tail_size > 2 * half:
                self._trim(half)

    def whole(self) -> str:
        """All that was kept, with a line that says how much was not."""
        self._trim(self.limit // 2)
        gap = GAP.format(self.dropped) if self.dropped else ""
        return "".join((*self.head, gap, *self.tail))

    def _trim(self, size: int) -> None:
        tail = "".join(self.tail)
        self.dropped += max(0, len(tail) - size)
        self.tail = [tail[max(0, len(tail) - size) :]]
        self.tail_size = min(size, len(tail))


def shortened(text: str, limit: int) -> str:
    """`text` within some `limit` characters: its beginning, its end, and a word of what lies between."""
    if len(text) <= limit:
        return text
    kept = Text(limit=limit)
    kept.add(text)
    return kept.whole()


class Tree:
    """The target of a parser: builds the wanted elements, `most` of them, and counts what it leaves out.

    `roots`: what the whole may be; `counted`: the tag whose elements beyond the bound are counted.
    """

    def __init__(self, wanted: Collection[str], *, roots: Collection[str], most: int, counted: str) -> None:
        self._roots = roots
        self._wanted = frozenset(wanted)
        self._builder = TreeBuilder()
        self._most = most
        self._counted = counted
        self._depth = 0
        self._skipping = 0  # depth at which what is left out began; 0: nothing is
        self._texts: list[Text] = []
        self._elements = 0
        self.left_out = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unreadable(f"its elements stand more than {MAX_DEPTH} deep in one another")
        if self._skipping:
            self.left_out += self._elements >= self._most and tag.rpartition("}")[2] == self._counted
            return
        name = tag.rpartition("}")[2]  # some tools put their reports into a namespace
        if self._depth == 1 and name not in self._roots:
            wanted = " or ".join(f"<{root}>" for root in self._roots)
            raise Unreadable(f"its root is <{plain_text(name, 60)}>, not {wanted}")
        if name not in self._wanted or self._elements >= self._most:
            self._skipping = self._depth
            self.left_out += name == self._counted
            return
        self._elements += 1
        self._builder.start(name, dict(list(attributes.items())[:MAX_ATTRIBUTES]))
        self._texts.append(Text())

    def end(self, tag: str) -> None:
        """An element ends."""
        self._depth -= 1
        if self._skipping:
            if self._depth < self._skipping:
                self._skipping = 0
            return
        self._builder.data(self._texts.pop().whole())
        self._builder.end(tag.rpartition("}")[2])

    def data(self, piece: str) -> None:
        """Text of the element that is open, outside of the elements in it."""
        if not self._skipping and self._texts:
            self._texts[-1].add(piece)

    def close(self) -> Element:
        """The root."""
        return self._builder.close()


def read_tree(file: Path, tree: Tree) -> Element:
    """The root of a file's tree. Raises Unreadable; OSError where it cannot be read at all."""
    parser = DefusedXMLParser(target=tree, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    try:
        for piece in pieces(file):
            parser.feed(piece)
        root: Element = parser.close()
    except DefusedXmlException:
        raise Unreadable("it declares a document type or an entity, which a report has no use for") from None
    except ParseError as error:
        raise Unreadable(f"it is not XML: {error}") from None
    except (LookupError, ValueError) as error:
        raise Unreadable(f"it cannot be read: {error}") from None
    return root


def pieces(file: Path) -> Iterator[bytes]:
    """The bytes of a file. Raises Unreadable where there are more than MAX_BYTES."""
    if (size := file.stat().st_size) > MAX_BYTES:
        raise Unreadable(f"it has {size / 2**20:.1f} MiB: {MAX_BYTES >> 20} MiB at most are read")
    with file.open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            yield piece
