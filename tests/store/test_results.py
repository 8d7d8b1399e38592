"""Results, fenced by the lease of their attempt; and what of them is compared with later runs."""

from typing import Any

from hub.store import results
from hub.store.engine import Store
from hub.store.results import KEPT, NewReport, OutcomesRow
from tests.store.making import claim, end, finish, submit


def report(job: int, lease: str, path: str = "report.xml", **given: Any) -> NewReport:
    return NewReport(job=job, lease=lease, path=path, **{"kind": "junit", **given})


async def paths(store: Store, job: int) -> list[str]:
    async with store.read() as conn:
        return [row.path for row in await results.of_job(conn, job)]


async def outcomes(store: Store, job: int, name: str = "build") -> list[OutcomesRow]:
    async with store.read() as conn:
        return await results.outcomes(conn, project="andy/demo", name=name, job=job)


async def test_the_newest_attempts_files_are_a_jobs_results(store: Store) -> None:
    (job,) = await submit(store)
    old = await claim(store, job)
    assert await results.put(store.writer, report(job, old, total=9))
    await end(store, job, "released", lease=old)
    lease = await claim(store, job, number=2)
    assert await paths(store, job) == []
    for path, total in (("b.xml", 4), ("a.xml", 2), ("b.xml", 5)):
        assert await results.put(store.writer, report(job, lease, path, total=total, failed=1))
    assert await paths(store, job) == ["a.xml", "b.xml"]
    async with store.read() as conn:
        found = (await results.totals(conn, [job]))[job]
        held = await results.held(conn, job=job, attempt=2, path="a.xml")
    assert (found.total, found.failed, found.lines) == (7, 2, None)
    assert (held.files, held.characters) == (1, len("{}"))


async def test_an_attempt_that_is_over_leaves_no_more_results(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    assert not await results.put(store.writer, report(job, "guessed"))
    await finish(store, job, lease)
    assert not await results.put(store.writer, report(job, lease))
    assert await paths(store, job) == []


async def test_tests_and_coverage_are_summed_apart_and_what_was_not_read_counts_for_nothing(
    store: Store,
) -> None:
    jobs = await submit(store, {"a": (), "b": (), "c": ()})
    leases = [await claim(store, job) for job in jobs]
    for path in ("x.xml", "y.xml"):
        await results.put(
            store.writer, report(jobs[0], leases[0], path, kind="coverage", lines=2**40, covered=3)
        )
    await results.put(
        store.writer, report(jobs[1], leases[1], total=3, errors=1, skipped=1, duration_ms=2**40)
    )
    await results.put(store.writer, report(jobs[2], leases[2], fault="it is not XML"))
    async with store.read() as conn:
        found = await results.totals(conn, [*jobs, 10**9])
    assert set(found) == set(jobs[:2])
    assert (found[jobs[0]].total, found[jobs[0]].lines, found[jobs[0]].covered) == (None, 2**41, 6)
    assert (found[jobs[1]].total, found[jobs[1]].duration_ms, found[jobs[1]].lines) == (3, 2**40, None)


async def test_the_last_jobs_of_a_name_are_compared_and_older_digests_are_given_up(store: Store) -> None:
    jobs = []
    for number in range(KEPT + 3):
        (job,) = await submit(store, commit=f"c{number}")
        lease = await claim(store, job)
        for path in ("a.xml", "b.xml"):
            row = report(job, lease, path, passed=b"12345678", fell='["t::a"]')
            assert await results.put(store.writer, row)
        jobs.append(job)
    (other,) = await submit(store, {"other": ()})
    await results.put(store.writer, report(other, await claim(store, other), passed=b"x" * 8))
    found = await outcomes(store, jobs[-1])
    assert [row.job_id for row in found[::2]] == jobs[: -KEPT - 1 : -1]
    assert len(found) == 2 * KEPT
    assert {(row.passed, row.fell) for row in found} == {(b"12345678", '["t::a"]')}
    assert found[0].commit == f"c{KEPT + 2}"
    old = await outcomes(store, jobs[2])
    assert [(row.job_id, row.passed) for row in old] == [(job, None) for job in (*jobs[2::-1],) for _ in "ab"]
    assert [row.job_id for row in await outcomes(store, other, "other")] == [other]


async def test_a_job_that_ends_after_many_newer_ones_keeps_no_digests(store: Store) -> None:
    (slow,) = await submit(store)
    lease = await claim(store, slow)
    for _ in range(KEPT):
        (job,) = await submit(store)
        await results.put(store.writer, report(job, await claim(store, job), passed=b"x" * 8))
    await results.put(store.writer, report(slow, lease, passed=b"y" * 8))
    assert [row.passed for row in await outcomes(store, slow)] == [None]
    assert all(row.passed for row in await outcomes(store, job))
