"""Cobertura's XML as a rate for the whole and for each package: lines that ran, of lines that could.

Lines are counted where the file lists them (those of methods stand among those of their class, and count
once), so that several files of a job add up. Where it lists none, what its root says is taken.
"""

from dataclasses import dataclass
from pathlib import Path

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from hub.reports.bounded import MAX_DEPTH, Unreadable, pieces
from hub.wire.base import plain_text
from hub.wire.results import PackageCoverage

MAX_PACKAGES = 500  # of one file; the rest counts for the whole only
MAX_NAME = 300  # characters
MAX_LINES = 2**40  # more is a fault of the sender


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageReport:
    """What one file says. `lines`: those that could run; more than 0."""

    lines: int
    covered: int
    packages: tuple[PackageCoverage, ...]
    notes: tuple[str, ...] = ()


class _Lines:
    """The target of a parser: counts, and keeps no element."""

    def __init__(self) -> None:
        self.root: dict[str, str] | None = None
        self.lines = self.covered = 0
        self.packages: dict[str, list[int]] = {}
        self.left_out = 0
        self._path: list[str] = []
        self._package: list[int] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = tag.rpartition("}")[2]
        if self.root is None:
            if name != "coverage":
                raise Unreadable(f"its root is <{plain_text(name, 60)}>, not <coverage>")
            self.root = attributes
        self._path.append(name)
        if len(self._path) > MAX_DEPTH:
            raise Unreadable(f"its elements stand more than {MAX_DEPTH} deep in one another")
        if name == "package":
            self._enter(attributes.get("name", ""))
        elif name == "line" and "methods" not in self._path:
            hit = attributes.get("hits", "0").strip() not in ("", "0")
            self.lines += 1
            self.covered += hit
            if self._package is not None:
                self._package[0] += 1
                self._package[1] += hit

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._path.pop() == "package":
            self._package = None

    def data(self, piece: str) -> None:
        """Text, of which a report of coverage has none that counts."""

    def close(self) -> "_Lines":
        """The counts."""
        return self

    def _enter(self, name: str) -> None:
        shown = plain_text(" ".join(name.split()), MAX_NAME) or "."
        if shown not in self.packages and len(self.packages) >= MAX_PACKAGES:
            self.left_out += 1
            return
        self._package = self.packages.setdefault(shown, [0, 0])


def read_coverage(file: Path) -> CoverageReport:
    """Read a file of coverage. Raises Unreadable. Blocks: for a thread."""
    target = _Lines()
    # Cobertura's own files name a document type; it is not looked at, and may declare nothing
    parser = DefusedXMLParser(target=target, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    try:
        for piece in pieces(file):
            parser.feed(piece)
        parser.close()
    except DefusedXmlException:
        raise Unreadable(
            "it declares an entity or refers to another file, which a report has no use for"
        ) from None
    except ParseError as error:
        raise Unreadable(f"it is not XML: {error}") from None
    except (LookupError, ValueError) as error:
        raise Unreadable(f"it cannot be read: {error}") from None
    lines, covered = target.lines, target.covered
    if not lines:
        lines, covered = _told(target.root or {}, "lines-valid"), _told(target.root or {}, "lines-covered")
    if not lines:
        raise Unreadable("it names no lines that could be covered")
    packages = [
        PackageCoverage(name=name, lines=counted[0], covered=counted[1])
        for name, counted in target.packages.items()
        if counted[0]
    ]
    notes = (
        [f"{target.left_out} packages beyond the first {MAX_PACKAGES} are not shown"]
        if target.left_out
        else []
    )
    return CoverageReport(
        lines=lines,
        covered=min(covered, lines),
        packages=tuple(sorted(packages, key=lambda one: one.name)),
        notes=tuple(notes),
    )


def _told(root: dict[str, str], name: str) -> int:
    """A count that the root tells; 0 where it tells none."""
    text = root.get(name, "").strip()
    return min(int(text), MAX_LINES) if text.isascii() and text.isdigit() and len(text) <= 15 else 0
