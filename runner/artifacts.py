"""The files that a job leaves, found by its patterns and sent to the hub.

Nothing outside the workspace is sent, whatever links the job made: folders are never entered
through a link, and a link to a file is followed only if the file lies within. All of the job's
processes are dead by then, so what is looked at stays as it is.

A pattern is relative to the workspace: `*` and `?` within one part of a path, `**` any number of
parts; one that names a folder means all below it.
"""

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hub.wire.base import plain_text

MAX_FILES = 10_000  # as the hub bounds it
MAX_TOTAL_BYTES = 32 * 2**30  # of one job
MAX_PATH = 1000  # characters, as the hub bounds it
MAX_SEEN = 2_000_000  # files looked at
MAX_LINKS = 40  # followed for one name, as the kernel bounds it


class TooMany(Exception):
    """The job leaves more than may be kept: its words say of what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to send. `path` is what is opened, `name` what the hub is told.

    `report`: what kind of report it is, junit say; None: none.
    """

    name: str
    path: Path
    bytes: int
    report: str | None = None


@dataclass(slots=True)
class Search:
    """What was found, and a sentence for everything that somebody may miss."""

    files: list[Found]
    notes: list[str]


def search(
    root: Path,
    patterns: Sequence[str],
    *,
    reports: Mapping[str, Sequence[str]] | None = None,
    shown: str | None = None,
) -> Search:
    """The files of the workspace `root` that any of `patterns` names. Raises TooMany.

    Sorted by name; those that `reports`, patterns by kind, name come first, for what they say is wanted
    even where another file cannot be kept.
    `shown`: where the job saw its workspace, as its absolute links have it; None: where it is.
    """
    tops = tuple(dict.fromkeys((shown or str(root), str(root), os.path.realpath(root))))
    found = Search(files=[], notes=[])
    kinds = {pattern: kind for kind, named in (reports or {}).items() for pattern in named}
    wanted = [(pattern, _compiled(pattern)) for pattern in dict.fromkeys((*kinds, *patterns))]
    matched: set[str] = set()
    for name in sorted(_walk(root)):
        hits = [pattern for pattern, parts in wanted if _matches(parts, name.split("/"))]
        if not hits:
            continue
        matched.update(hits)
        kind = next((kinds[pattern] for pattern in hits if pattern in kinds), None)
        if (note := _add(found, root, tops, name, kind)) is not None:
            found.notes.append(note)
        if len(found.files) > MAX_FILES:
            raise TooMany(f"the job leaves more than {MAX_FILES} files: pack them into one")
    if sum(each.bytes for each in found.files) > MAX_TOTAL_BYTES:
        raise TooMany(f"the job leaves more than {MAX_TOTAL_BYTES >> 30} GiB")
    found.notes.extend(f"no file matches {pattern}" for pattern, _ in wanted if pattern not in matched)
    found.files.sort(key=lambda file: (file.report is None, file.name))
    return found


def _add(found: Search, root: Path, tops: tuple[str, ...], name: str, report: str | None) -> str | None:
    """Take one file; or why it is left out."""
    if len(name) > MAX_PATH or plain_text(name, MAX_PATH) != name or any(c in name for c in "\n\t\\"):
        return f"left out, for its name cannot be kept: {plain_text(name, 100)!r}"
    path = root / name
    if path.is_symlink():
        real = _followed(root, tops, name)
        if real is None:
            return f"left out, for it is a link that leads out of the workspace: {name}"
        path = root / real
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return f"left out, for it is a link to nothing: {name}"
    if not stat.S_ISREG(status.st_mode):
        return f"left out, for it is not a file: {name}"
    found.files.append(Found(name=name, path=path, bytes=status.st_size, report=report))
    return None


def _followed(root: Path, tops: tuple[str, ...], name: str) -> str | None:
    """What a name below `root` stands for, every link followed, as a name below it; None: it leads out.

    Not by `realpath`: the workspace may be in another mount namespace, reached through a link of /proc
    that only the kernel can follow, and there an absolute target means another file than here: one that
    begins with one of `tops`, the workspace's own names, is within it.
    """
    done: list[str] = []
    ahead = name.split("/")[::-1]
    followed = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not done:
                return None
            done.pop()
            continue
        try:
            target = str(root.joinpath(*done, part).readlink())
        except OSError:  # no link; or nothing at all, as whoever opens it will find
            done.append(part)
            continue
        followed += 1
        if followed > MAX_LINKS:
            return None
        if target.startswith("/"):
            inside = next((top for top in tops if target.startswith(f"{top}/")), None)
            if inside is None:
                return None
            done, target = [], target.removeprefix(inside)
        ahead.extend(target.split("/")[::-1])
    return "/".join(done)


def _walk(root: Path) -> Iterator[str]:
    """Names of all that is not a folder, and of links to folders. Raises TooMany."""
    ahead, seen = [""], 0
    while ahead:
        folder = ahead.pop()
        try:
            entries = list(os.scandir(root / folder))
        except PermissionError:
            continue
        seen += len(entries)
        if seen > MAX_SEEN:
            raise TooMany(f"the workspace has more than {MAX_SEEN} files")
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            try:
                name.encode()
            except UnicodeEncodeError:  # bytes that are no UTF-8: the hub could not name it
                continue
            if entry.is_dir(follow_symlinks=False):
                ahead.append(name)
            else:
                yield name


def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """A pattern's parts; None: any number of parts."""
    parts: list[re.Pattern[str] | None] = []
    for part in pattern.split("/"):
        if part == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif part not in ("", "."):
            parts.append(re.compile(fnmatch.translate(part)))  # which cannot be made to search for ever
    return tuple(parts)


def _matches(parts: Sequence[re.Pattern[str] | None], name: Sequence[str]) -> bool:
    """Whether a pattern names a file, or a folder that it is in. Time: the product of the two lengths."""
    reached = {0}  # how many parts of the pattern may be used up before the next part of the name
    for word in name:
        _skip(parts, reached)
        after = set()
        for at in reached:
            if at < len(parts):
                expression = parts[at]
                if expression is None:
                    after.add(at)
                elif expression.match(word):
                    after.add(at + 1)
        reached = after
        if len(parts) in reached and parts:
            return True
    _skip(parts, reached)
    return len(parts) in reached and len(parts) > 0


def _skip(parts: Sequence[re.Pattern[str] | None], reached: set[int]) -> None:
    """`**` may stand for no part at all."""
    for at in range(len(parts)):
        if at in reached and parts[at] is None:
            reached.add(at + 1)
