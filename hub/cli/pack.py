"""A folder packed for a run: one tar, compressed with zstd, named by the BLAKE3 of its bytes.

The invariant: the same files give the same bytes, on whatever machine and day, so that a folder the
hub already has is not sent again. Owners, times and all of the mode but "may be executed" are
therefore fixed. `.git` never travels, nor what git ignores, nor a link that leads out of the folder
(the runner would refuse the whole pack).
"""

import os
import re
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self, cast

from hub.cli import ignore
from hub.cli.errors import CliError, Usage

# The second day of 1980: zip files, and the wheels that builds make, know no earlier time in any zone.
MTIME_S = 315_619_200
LEVEL = 3  # zstd: 100 MB/s a thread; higher levels win 5 % and cost three times as much
MAX_FILES = 500_000  # the largest public repositories have fewer; more is a folder given by mistake
GIT_S = 120  # git lists a million files in a few seconds

Rules = tuple[tuple[str, tuple[ignore.Rule, ...]], ...]  # of each folder above, the top's first

_NAME_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed folder in an open temporary file, which is gone when this is closed."""

    file: IO[bytes]
    hash: str  # BLAKE3, 64 hexadecimal digits
    bytes: int
    files: int
    left_out: tuple[str, ...]  # a sentence each: links that lead out, and what is no file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()


def pack(folder: Path) -> Packed:
    """Pack what git would keep of `folder`, wherever it is a checkout or only has `.gitignore` files.

    Raises Usage where it is no folder, CliError where a file cannot be read or changes meanwhile.
    """
    if not folder.is_dir():
        raise Usage(f"{folder} is not a folder")
    names = sorted(listing(folder), key=os.fsencode)
    if len(names) > MAX_FILES:
        raise Usage(
            f"{folder} has {len(names)} files, over the bound of {MAX_FILES}: is it the right folder?"
        )
    left_out: list[str] = []
    count = 0
    target = tempfile.TemporaryFile(prefix="shunter-pack-")  # noqa: SIM115 - handed to the caller, closed there
    try:
        sink = _Sink(target)
        stream = cast(BinaryIO, sink)  # mode "w|" only writes, which tarfile's types do not say
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name in names:
                count += _add(tar, folder, name, left_out)
        digest = sink.finish()
        size = target.tell()
        target.seek(0)
    except OSError as error:
        target.close()
        raise CliError(
            f"the folder cannot be packed: {error.filename or folder}: {error.strerror or error}"
        ) from None
    except BaseException:
        target.close()
        raise
    return Packed(file=target, hash=digest, bytes=size, files=count, left_out=tuple(left_out))


class _Sink:
    """What is written to it reaches `target` compressed, and is hashed on the way."""

    def __init__(self, target: IO[bytes]) -> None:
        import zstandard
        from blake3 import blake3

        self._target = target
        self._compressor = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        self._digest = blake3()

    def write(self, data: bytes) -> int:
        self._put(self._compressor.compress(data))
        return len(data)

    def finish(self) -> str:
        """End the frame; the BLAKE3 of all that reached the target."""
        self._put(self._compressor.flush())
        self._target.flush()
        return str(self._digest.hexdigest())

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._target.write(data)


def _add(tar: tarfile.TarFile, folder: Path, name: str, left_out: list[str]) -> int:
    """Add one file or link; 1 if it travels, 0 if it is left out or gone since it was listed."""
    path = folder / name
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0  # tracked, and deleted in this checkout: a run sees the folder as it is
    info = tarfile.TarInfo(name)
    info.mtime = MTIME_S
    if stat.S_ISLNK(found.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        if _leads_out(name, info.linkname):
            left_out.append(f"left out {name}: the link leads out of the folder")
            return 0
        tar.addfile(info)
        return 1
    if not stat.S_ISREG(found.st_mode):
        left_out.append(f"left out {name}: neither a file nor a link")
        return 0
    info.mode = 0o755 if found.st_mode & 0o100 else 0o644
    with path.open("rb") as source:
        info.size = os.fstat(source.fileno()).st_size
        try:
            tar.addfile(info, source)
        except OSError as error:
            if error.errno is None:  # tarfile's own word for a file that became shorter
                raise CliError(f"{name} changed while it was packed: try again") from None
            raise
    return 1


def _leads_out(name: str, link: str) -> bool:
    if link.startswith("/"):
        return True
    inside = os.path.normpath(os.path.join(os.path.dirname(name), link))  # noqa: PTH118, PTH120 - text only
    return inside == ".." or inside.startswith("../")


def listing(folder: Path) -> set[str]:
    """The files and links of `folder` that git would keep, as paths below it."""
    listed = _ask_git(folder)
    if listed is None:
        return set(_walk(folder))
    found: set[str] = set()
    for name in (each.rstrip("/") for each in listed):
        path = folder / name
        if path.is_dir() and not path.is_symlink():  # a submodule, or a checkout within this one
            found |= {f"{name}/{inner}" for inner in listing(path)}
        else:
            found.add(name)
    return found


def _ask_git(folder: Path) -> list[str] | None:
    """What git lists; None where it is no checkout, or the folder itself is ignored by the one around it."""
    if git(folder, "rev-parse", "--is-inside-work-tree") != b"true\n":
        return None
    if git(folder, "check-ignore", "-q", ".") is not None:
        return None
    listed = git(folder, "ls-files", "-co", "--exclude-standard", "-z")
    return None if listed is None else [os.fsdecode(name) for name in listed.split(b"\0") if name]


def git(folder: Path, *words: str) -> bytes | None:
    """What git says; None where it is not there or refuses."""
    command = ["git", "-C", str(folder), *words]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_S, env=environ, check=False)  # noqa: S603 - a fixed program, no shell
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _walk(folder: Path) -> Iterator[str]:
    """What git would keep of a folder that is no checkout, by its `.gitignore` files at every level."""
    pending: list[tuple[str, Rules]] = [("", ())]
    while pending:
        inside, rules = pending.pop()
        here = folder / inside
        file = here / ".gitignore"
        if file.is_file() and not file.is_symlink():
            text = file.read_text("utf-8", "surrogateescape")
            rules = (*rules, (inside, ignore.read(text.split("\n"))))
        with os.scandir(here) as entries:
            for entry in entries:
                name = inside + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name == ".git" or _ignored(name, rules, is_folder=is_folder):
                    continue
                if is_folder:
                    pending.append((name + "/", rules))
                else:
                    yield name


def _ignored(name: str, rules: Rules, *, is_folder: bool) -> bool:
    """The nearest file with a rule for `name` decides."""
    for inside, read in reversed(rules):
        found = ignore.verdict(read, name[len(inside) :], is_folder=is_folder)
        if found is not None:
            return found
    return False


def project_of(folder: Path) -> str:
    """`owner/name`: from the git remote `origin`, else `local/` and the folder's name."""
    said = git(folder, "remote", "get-url", "origin")
    remote = said.decode("utf-8", "replace").strip() if said else ""
    parts = [_word(part) for part in re.split(r"[/:]", remote.removesuffix("/").removesuffix(".git")) if part]
    if len(parts) >= 3 and all(parts[-2:]):  # a host stands before them; a bare path names no owner
        return f"{parts[-2]}/{parts[-1]}"
    return f"local/{_word(folder.resolve().name) or 'folder'}"


def _word(text: str) -> str:
    return _NAME_UNSAFE.sub("-", text).strip("-._")[:100]


def top_of(folder: Path) -> Path:
    """The top of the checkout that `folder` is in; `folder` itself where it is in none."""
    said = git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(said.removesuffix(b"\n"))) if said else folder
