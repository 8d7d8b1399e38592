"""What recent runs of a job took, so that its next run's need is learned and not guessed."""

from hub.placement.need import peak_of
from hub.service import shortages
from hub.service.hub import Hub, Recent
from hub.store import history as store
from hub.store.endings import Ending

_NOTHING = Recent(peaks_disk_mib=(), peaks_memory_mib=(), durations_ms=())
MAX_KNOWN = 10_000  # jobs by project and name; a hub with more asks the store again


async def learned(hub: Hub, project: str, name: str) -> Recent:
    """The last finished runs of this job; empty where there were none."""
    known = hub.recent
    if (found := known.get((project, name))) is not None:
        return found
    async with hub.store.read() as conn:
        rows = await store.recent(conn, project=project, name=name)
    found = Recent(
        peaks_disk_mib=tuple(peak_of(row.peak_disk_mib, _ran_out_mib(row)) for row in rows),
        peaks_memory_mib=tuple(row.peak_memory_mib for row in rows),
        durations_ms=tuple(row.duration_ms for row in rows if row.duration_ms is not None),
    )
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[(project, name)] = found
    return found


def known(hub: Hub, project: str, name: str) -> Recent:
    """As `learned`, of what is remembered only: empty where the store was not asked."""
    return hub.recent.get((project, name), _NOTHING)


def _ran_out_mib(row: store.TakenRow) -> int | None:
    """The disk that an attempt of that run had taken when there was no more; None: none ran out of it."""
    try:
        found = shortages.from_json(row.shortages)
    except ValueError:  # a broken row of a job that is over teaches nothing, and stops nobody
        return None
    return next((one.had_mib for one in found if one.of == "disk"), None)


def add(hub: Hub, project: str, name: str, ending: Ending, duration_ms: int) -> None:
    """A job of this name has ended by itself, and ran out of nothing: it is the newest of the last five."""
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
