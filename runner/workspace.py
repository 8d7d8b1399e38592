"""A job's files, fetched into its empty workspace before its first step.

A packed folder is fetched whole, its BLAKE3 taken on the way, and only then unpacked: no byte is
looked at that the hub did not name. A commit is fetched with git, in the sandbox, so that a cancel
and the bound on preparing end it like any step. No workspace: the folder stays empty.
"""

import errno
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from blake3 import blake3

from hub.wire.claim import Workspace
from runner.client import Backoff, Hub, persist
from runner.errors import Aborted, Away, Missing
from runner.sandbox.base import Command, Sandbox, Stop
from runner.unpack import SPARE_BYTES, BadPack, NoRoom, unpack

log = logging.getLogger(__name__)

MAX_PACK_BYTES = 8 * 2**30  # compressed; the hub's own bound is lower
MAX_GARBLED = 5  # whole fetches with the wrong bytes (a proxy's page, say) before it is no accident
MAX_DELTA_COMMITS = 50  # of history, fetched with a commit that the server will not give by its name


class NotPrepared(Exception):
    """The workspace cannot be had: its words say why. The machinery's fault, not the job's."""


class Cramped(NoRoom):
    """The disk that the workspace is on has no room for it."""


def fetch_pack(
    hub: Hub,
    job: int,
    lease: str,
    workspace: Workspace,
    target: Path,
    stop: Stop,
    backoff: Backoff,
    *,
    until: float,
    beside: Path | None = None,
    spare_bytes: int = SPARE_BYTES,
) -> str:
    """Fetch and unpack; a sentence for the log. Raises NotPrepared, NoRoom, OSError, Aborted or Over.

    The pack itself is kept in the folder `beside` meanwhile (None: beside the target), which may be on
    another disk; `spare_bytes` are left free on the target's.
    """
    assert workspace.hash is not None
    with tempfile.TemporaryFile(dir=beside or target.parent) as pack:
        garbled = 0

        def fetch() -> None:
            nonlocal garbled
            pack.seek(0)
            pack.truncate()
            name = _download(hub, job, lease, workspace, pack, stop, until)
            if name != workspace.hash:
                garbled += 1
                sentence = f"what came as the workspace is not {workspace.hash} but {name}"
                raise NotPrepared(sentence) if garbled >= MAX_GARBLED else Away(sentence)

        try:
            persist(fetch, stop, backoff, until="timed_out", give_up_s=max(0.0, until - time.monotonic()))
            pack.seek(0)
            try:
                done = unpack(pack, target, spare_bytes=spare_bytes, go_on=lambda: _go_on(stop, until))
            except (NoRoom, OSError) as error:
                if isinstance(error, NoRoom) or error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise Cramped(str(error)) from None
                raise
        except (Missing, Away) as error:
            raise NotPrepared(f"the workspace cannot be fetched: {error.detail}") from None
        except BadPack as error:
            raise NotPrepared(f"the workspace is refused: {error}") from None
    return f"workspace {workspace.hash[:12]}: {done.files} files, {done.bytes / 2**20:.1f} MiB"


def _download(
    hub: Hub, job: int, lease: str, workspace: Workspace, pack: IO[bytes], stop: Stop, until: float
) -> str:
    """Fetch into `pack`; the BLAKE3 of what came."""
    room = os.fstatvfs(pack.fileno())
    free = room.f_bavail * room.f_frsize - SPARE_BYTES
    if workspace.bytes is not None and workspace.bytes > free:
        raise NoRoom(f"no space left for the workspace: {workspace.bytes >> 20} MiB to fetch")
    digest, size = blake3(), 0
    with hub.workspace(job, lease) as pieces:
        for piece in pieces:
            size += len(piece)
            if size > min(workspace.bytes or MAX_PACK_BYTES, MAX_PACK_BYTES):
                raise NotPrepared("the workspace is longer than the hub said")
            if size > free:
                raise NoRoom("no space left for the workspace")
            _go_on(stop, until)
            digest.update(piece)
            pack.write(piece)
    if workspace.bytes is not None and size < workspace.bytes:
        raise Away("the workspace was cut off")
    return digest.hexdigest()


def _go_on(stop: Stop, until: float) -> None:
    """Raise Aborted or NotPrepared where there is no time for more."""
    if stop.reason is not None:
        raise Aborted
    if time.monotonic() > until:
        raise NotPrepared("fetching the workspace took too long")


def fetch_commit(
    sandbox: Sandbox,
    workspace: Workspace,
    base_env: Mapping[str, str],
    sink: Callable[[bytes], None],
    stop: Stop,
    *,
    until: float,
) -> None:
    """Fetch and check out a commit; git's output goes into `sink`. Raises NotPrepared.

    Hooks never run, git asks nobody for a password, and it has until `until`.
    """
    if not workspace.git or not workspace.commit:
        raise NotPrepared("the workspace names neither a packed folder nor a commit of a git repository")
    env = {
        **base_env,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(Path.home()),  # the credentials that the machine's owner set up for this user
        "FROM": workspace.git,
        "COMMIT": workspace.commit,
        "DEPTH": str(MAX_DELTA_COMMITS),
        "BESIDE": str(sandbox.folder / "checkout") if sandbox.own_disk else "",
        "INTO": str(sandbox.workspace),
    }
    code = sandbox.run(Command(argv=("/bin/sh", "-eu", "-c", _GIT), env=env, outside=True), sink, stop, until)
    if code != 0 and stop.reason is None:
        raise NotPrepared(f"git could not fetch {workspace.commit[:12]} of {workspace.git} (exit {code})")


# git asks where it is, and has no answer on a disk that is mounted for the job alone: there it works in a
# folder beside, and what it made is copied.
# A server may not give a commit by its name, or not one that is only abbreviated: then all branches.
_GIT = """
command -v git >/dev/null || { echo "git is not installed on this runner"; exit 127; }
git() { command git -c core.hooksPath=/dev/null -c protocol.ext.allow=never "$@"; }
if [ -n "$BESIDE" ]; then mkdir "$BESIDE"; cd "$BESIDE"; fi
git -c init.defaultBranch=main init -q .
git remote add origin "$FROM"
if ! git fetch -q --no-tags --depth 1 origin "$COMMIT" 2>/dev/null; then
  git fetch -q --no-tags --depth "$DEPTH" origin '+refs/heads/*:refs/remotes/origin/*'
  git cat-file -e "$COMMIT^{commit}" 2>/dev/null ||
    git fetch -q --tags --unshallow origin '+refs/heads/*:refs/remotes/origin/*'
fi
git checkout -q --detach "$COMMIT"
git log -1 --oneline --no-decorate
if [ -n "$BESIDE" ]; then cp -a . "$INTO/"; cd /; rm -rf "$BESIDE"; fi
"""
