"""Packed folders that travel with a run: sent once, named by the hash of their bytes.

A hash is no permission: a folder is known per project, and only jobs of that project read it.
"""

from collections.abc import AsyncIterator
from pathlib import Path

from hub.dispatch.attempts import LiveAttempt
from hub.errors import BadRequest, NotFound
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.store import workspaces as store
from hub.store.rows import WorkspaceRow
from hub.wire.claim import Workspace
from hub.wire.fleet import WorkspaceSaved

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def may_put(hub: Hub, principal: Principal, project: str) -> None:
    """Before a byte is read: whether the folder may be sent."""
    authorise(principal, "submit", project)


async def find(hub: Hub, principal: Principal, project: str, digest: str) -> WorkspaceRow:
    """The folder, if it was sent for this project before. Raises NotFound."""
    authorise(principal, "submit", project)
    async with hub.store.read() as conn:
        found = await store.get(conn, project=project, hash=digest)
    if found is None:
        raise NotFound("the hub does not have this workspace: send it")
    return found


async def put(
    hub: Hub, principal: Principal, project: str, digest: str, file: Path, size: int
) -> WorkspaceSaved:
    """Keep a folder whose hash was checked. The runner unpacks it; the hub never does."""
    authorise(principal, "submit", project)
    with file.open("rb") as opened:
        if opened.read(4) != ZSTD_MAGIC:
            raise BadRequest("a workspace is a tar file compressed with zstd")
    if await hub.blobs.size(_blob_name(digest)) != size:
        await hub.blobs.put(_blob_name(digest), file)
    row = WorkspaceRow(hash=digest, project=project, bytes=size, created_ms=hub.now_ms())
    await store.put(hub.store.writer, row)
    return WorkspaceSaved(hash=digest, bytes=size)


async def read(hub: Hub, attempt: LiveAttempt) -> tuple[Workspace, AsyncIterator[bytes]]:
    """The folder that the attempt's job runs in."""
    run = attempt.job.run
    workspace = Workspace.model_validate_json(run.workspace) if run.workspace else None
    if workspace is None or workspace.hash is None:
        raise NotFound("this job has no packed workspace")
    if await hub.blobs.size(_blob_name(workspace.hash)) is None:
        raise NotFound("the workspace's bytes are gone from the hub: submit the run anew")
    return workspace, hub.blobs.read(_blob_name(workspace.hash))


def _blob_name(digest: str) -> str:
    return f"workspaces/{digest[:2]}/{digest}"
