"""What recent runs of a job took, so that its next run's need is learned and not guessed."""

from hub.service.hub import Hub, Recent
from hub.store import history as store
from hub.store.endings import Ending

MAX_KNOWN = 10_000  # jobs by project and name; a hub with more asks the store again


async def learned(hub: Hub, project: str, name: str) -> Recent:
    """The last finished runs of this job; empty where there were none."""
    known = hub.recent
    if (found := known.get((project, name))) is not None:
        return found
    async with hub.store.read() as conn:
        rows = await store.recent(conn, project=project, name=name)
    found = Recent(
        peaks_disk_mib=tuple(row.peak_disk_mib for row in rows),
        peaks_memory_mib=tuple(row.peak_memory_mib for row in rows),
        durations_ms=tuple(row.duration_ms for row in rows if row.duration_ms is not None),
    )
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[(project, name)] = found
    return found


def add(hub: Hub, project: str, name: str, ending: Ending, duration_ms: int) -> None:
    """A job of this name has ended by itself: it is the newest of the last five."""
    found = hub.recent.get((project, name))
    if found is None:
        return
    hub.recent[(project, name)] = Recent(
        peaks_disk_mib=(ending.peak_disk_mib, *found.peaks_disk_mib)[: store.RECENT],
        peaks_memory_mib=(ending.peak_memory_mib, *found.peaks_memory_mib)[: store.RECENT],
        durations_ms=(duration_ms, *found.durations_ms)[: store.RECENT],
    )


def forget(hub: Hub, project: str, name: str) -> None:
    """Something else became of a job of this name: ask the store when it is next asked for."""
    hub.recent.pop((project, name), None)
