"""A pipeline file and its folder, sent to the hub: pack, ask whether it is there, send, submit.

The invariant: the whole may be repeated after a failure at any place, and no run comes of it twice:
the pack is named by its content, and the submit carries a key made before its first try.
"""

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from hub.cli import pack
from hub.cli.client import Client
from hub.cli.errors import Refused, Usage
from hub.cli.terminal import one_line, wants_colour

Json = dict[str, Any]

MAX_PIPELINE_BYTES = 2**20  # as hub.wire.runs.Submit


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to submit. `folder` None: the checkout of the file; `project` None: from that folder."""

    file: Path
    project: str | None = None
    folder: Path | None = None
    git: str | None = None
    commit: str | None = None
    no_workspace: bool = False
    title: str | None = None
    ref: str | None = None
    priority: int = 0


def submit(client: Client, wish: Wish) -> Json:
    """Submit a run and give `{"id", "url"}`. Raises CliError."""
    pipeline = read(wish.file)
    folder = wish.folder or pack.top_of(wish.file.resolve().parent)
    project = wish.project or pack.project_of(folder)
    body: Json = {"project": project, "pipeline": pipeline, "priority": wish.priority}
    body.update({key: text for key in ("title", "ref", "commit") if (text := getattr(wish, key)) is not None})
    if wish.git is not None:
        body["workspace"] = {"git": wish.git, "commit": wish.commit}
    elif not wish.no_workspace:
        body["workspace"] = {"hash": _deliver(client, folder, project, pipeline)}
    body["key"] = secrets.token_hex(16)
    return client.ask("POST", "/runs", body=body, repeat=True).json()


def preview(client: Client, file: Path, project: str | None) -> Json:
    """Where the jobs would go. Raises CliError."""
    pipeline = read(file)
    body = {"project": project or pack.project_of(pack.top_of(file.resolve().parent)), "pipeline": pipeline}
    return client.ask("POST", "/preview", body=body, repeat=True).json()


def read(file: Path) -> str:
    """The pipeline file's text. Raises Usage where it cannot be one."""
    try:
        with file.open("rb") as source:
            content = source.read(MAX_PIPELINE_BYTES + 1)
        if len(content) > MAX_PIPELINE_BYTES:
            raise Usage(f"{file} is over {MAX_PIPELINE_BYTES} bytes: it is no pipeline file")
        return content.decode("utf-8")
    except OSError as error:
        raise Usage(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Usage(f"{file} is not UTF-8 (byte {error.start})") from None


def _deliver(client: Client, folder: Path, project: str, pipeline: str) -> str:
    """Bring the packed folder to the hub, if it is not there, and give its hash."""
    with pack.pack(folder) as packed:
        for words in packed.left_out:
            print(f"shunter: {one_line(words)}", file=sys.stderr)
        path, query = f"/workspaces/{packed.hash}", {"project": project}
        if not _is_there(client, path, query):
            # A fault in the file is better told before a gigabyte has travelled than after.
            client.ask("POST", "/preview", body={"project": project, "pipeline": pipeline}, repeat=True)
            with _progress(packed) as source:
                client.send(path, query, source, packed.bytes)
        return packed.hash


def _is_there(client: Client, path: str, query: dict[str, str]) -> bool:
    try:
        client.ask("HEAD", path, query)
    except Refused as error:
        if error.status in (404, 405):
            return False
        raise
    return True


def _progress(packed: pack.Packed) -> IO[bytes]:
    """The pack to read from, with a bar on the standard error if that is a terminal."""
    if not wants_colour(sys.stderr):
        return packed.file
    from rich.console import Console
    from rich.progress import wrap_file

    words = f"sending {packed.files} files"
    return wrap_file(  # type: ignore[return-value]  # it gives a context manager whose value is the file
        cast(BinaryIO, packed.file),
        packed.bytes,
        description=words,
        console=Console(stderr=True),
        transient=True,
    )
