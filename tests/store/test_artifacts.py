"""Artifacts, fenced by the lease of their attempt; and workspaces, each for its project."""

from hub.store import artifacts, workspaces
from hub.store.artifacts import NewArtifact
from hub.store.engine import Store
from hub.store.rows import WorkspaceRow
from tests.store.making import claim, end, finish, submit


def artifact(job: int, lease: str, path: str, content: str = "00") -> NewArtifact:
    return NewArtifact(job=job, lease=lease, path=path, bytes=len(content), hash=content)


async def test_files_of_the_newest_attempt_are_listed_by_path(store: Store) -> None:
    (job,) = await submit(store)
    old = await claim(store, job)
    assert await artifacts.put(store.writer, artifact(job, old, "dist/old.whl"))
    await end(store, job, "released", lease=old)
    lease = await claim(store, job, number=2)
    for path in ("dist/b.whl", "dist/../a ü.txt", "dist/b.whl"):
        assert await artifacts.put(store.writer, artifact(job, lease, path, "1234"))
    async with store.read() as conn:
        assert [row.path for row in await artifacts.listing(conn, job)] == ["dist/../a ü.txt", "dist/b.whl"]
        assert await artifacts.get(conn, job, "dist/old.whl") is None
        found = await artifacts.get(conn, job, "dist/b.whl")
    assert found is not None
    assert (found.attempt, found.bytes, found.hash) == (2, 4, "1234")


async def test_the_same_path_again_replaces_the_file(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    await artifacts.put(store.writer, artifact(job, lease, "a", "old"))
    await artifacts.put(store.writer, artifact(job, lease, "a", "newer"))
    async with store.read() as conn:
        (row,) = await artifacts.listing(conn, job)
    assert (row.hash, row.bytes) == ("newer", 5)


async def test_an_attempt_that_is_over_leaves_no_more_files(store: Store) -> None:
    """Field bug B04."""
    (job,) = await submit(store)
    old = await claim(store, job)
    await end(store, job, "lost")
    new = await claim(store, job, number=2)
    assert not await artifacts.put(store.writer, artifact(job, old, "a"))
    assert not await artifacts.put(store.writer, artifact(job, "guessed", "a"))
    assert await artifacts.put(store.writer, artifact(job, new, "b"))
    await finish(store, job, new)
    assert not await artifacts.put(store.writer, artifact(job, new, "c"))
    async with store.read() as conn:
        assert [row.path for row in await artifacts.listing(conn, job)] == ["b"]


async def test_a_workspace_serves_the_project_that_sent_it(store: Store) -> None:
    row = WorkspaceRow(hash="ab" * 32, project="andy/demo", bytes=10, created_ms=1)
    await workspaces.put(store.writer, row)
    await workspaces.put(
        store.writer, WorkspaceRow(hash=row.hash, project="andy/demo", bytes=10, created_ms=2)
    )
    async with store.read() as conn:
        assert await workspaces.get(conn, project="andy/demo", hash=row.hash) == row
        assert await workspaces.exists(conn, project="andy/demo", hash=row.hash)
        assert not await workspaces.exists(conn, project="andy/other", hash=row.hash)
