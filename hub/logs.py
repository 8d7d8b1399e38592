"""Logs of attempts: one file each, appended at an offset, read while they grow.

The offset is the only order: a piece is accepted where the log ends, once, and a gap is refused
with the offset wanted. The file is flushed to disk when its attempt ends; until then the runner
keeps its own copy and sends again what a power cut took.
"""

import os
from dataclasses import dataclass
from pathlib import Path


class LogFull(Exception):
    """A log has reached its bound."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The folder of all logs. Blocking calls: give them to a thread where they are long."""

    folder: Path
    limit_bytes: int

    def path(self, job: int, attempt: int) -> Path:
        """Where the log of an attempt is, whether it exists or not; 1000 jobs a folder."""
        return self.folder / str(job // 1000) / f"{job}-{attempt}.log"

    def size(self, job: int, attempt: int) -> int:
        """Bytes that are there; 0 where nothing came yet."""
        try:
            return self.path(job, attempt).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, job: int, attempt: int, offset: int, piece: bytes) -> int | None:
        """The log's new length; None: `offset` lies past its end (a gap).

        A piece that begins before the end was sent before: what is there stays, what is beyond is
        added. Raises LogFull where it would grow past `limit_bytes`.
        """
        path = self.path(job, attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            size = file.tell()
            if offset > size:
                return None
            fresh = piece[size - offset :]
            if size + len(fresh) > self.limit_bytes:
                raise LogFull(size)
            try:
                file.write(fresh)
                file.flush()
            except OSError:
                os.truncate(path, size)  # a torn write on a full disk must not stay
                raise
            return size + len(fresh)

    def sync(self, job: int, attempt: int) -> None:
        """Make what was appended survive a power cut."""
        try:
            handle = os.open(self.path(job, attempt), os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, job: int, attempt: int, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; empty at the end or where nothing came yet."""
        try:
            with self.path(job, attempt).open("rb") as file:
                file.seek(offset)
                return file.read(limit)
        except FileNotFoundError:
            return b""
