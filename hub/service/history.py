"""What recent runs of a job took, so that its next run's need is learned and not guessed."""

from hub.service.hub import Hub, Recent
from hub.store import history as store

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


def forget(hub: Hub, project: str, name: str) -> None:
    """A job of this name has ended: learn anew when it is next asked for."""
    hub.recent.pop((project, name), None)
