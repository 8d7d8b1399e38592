"""Files that jobs leave. The path is data, kept in the store; the bytes are a blob named by hub alone."""

from collections.abc import AsyncIterator
from pathlib import Path

from hub.dispatch.attempts import LiveAttempt
from hub.errors import BadRequest, Conflict, NotFound
from hub.service import attempts, jobs
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.store import artifacts as store
from hub.store.rows import ArtifactRow
from hub.wire.base import plain_text
from hub.wire.runs import Artifact

MAX_PATH = 1000  # characters
MAX_ARTIFACTS = 10_000  # files of one attempt


def check_path(path: str) -> str:
    """A relative path of plain parts, as a runner may name a file. Raises BadRequest."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or plain_text(path, MAX_PATH) != path or "\n" in path or "\t" in path:
        raise BadRequest("an artifact's path is 1 to 1000 characters without control characters")
    if any(part in ("", ".", "..") for part in parts) or "\\" in path:
        raise BadRequest(f"an artifact's path is relative and plain, without `..`: {path}")
    return path


def blob_name(digest: str) -> str:
    """Where the bytes are kept: equal files are kept once."""
    return f"artifacts/{digest[:2]}/{digest}"


async def put(hub: Hub, attempt: LiveAttempt, path: str, file: Path, size: int, digest: str) -> Artifact:
    """Keep a file of an attempt that is still out. Bytes first, then the row that names them."""
    await attempts.renew(hub, attempt)
    async with hub.store.read() as conn:
        kept = await store.listing(conn, attempt.job.id)
    if len(kept) >= MAX_ARTIFACTS and path not in {one.path for one in kept}:
        raise BadRequest(f"a job may leave {MAX_ARTIFACTS} files: pack them into one")
    if await hub.blobs.size(blob_name(digest)) != size:
        await hub.blobs.put(blob_name(digest), file)
    put = store.NewArtifact(job=attempt.job.id, lease=attempt.lease, path=path, bytes=size, hash=digest)
    if not await store.put(hub.store.writer, put):
        raise Conflict("the attempt is over: stop what runs of it and drop the job")
    hub.events.tell(("job", attempt.job.id))
    return Artifact(path=path, bytes=size, hash=digest)


async def read(
    hub: Hub, principal: Principal, job_id: int, path: str
) -> tuple[ArtifactRow, AsyncIterator[bytes]]:
    """A file of the newest attempt."""
    await jobs.find(hub, principal, job_id)
    async with hub.store.read() as conn:
        found = await store.get(conn, job_id, path)
    if found is None or await hub.blobs.size(blob_name(found.hash)) is None:
        raise NotFound(f"job {job_id} left no such file: GET /api/v1/jobs/{job_id}/artifacts lists them")
    return found, hub.blobs.read(blob_name(found.hash))
