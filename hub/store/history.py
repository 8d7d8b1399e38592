"""What recent runs of a job took: the facts from which the next run's need is learned."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import read

RECENT = 5  # runs that are looked at: placement.md, "Need: learned, not guessed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """What one run of a job took; None: its runner did not say."""

    peak_memory_mib: int | None
    peak_disk_mib: int | None
    duration_ms: int | None
    shortages: str | None  # JSON list of wire Shortage; None: it ran out of nothing


# A failure of the machinery says nothing of the job, unless the job had run out of something: that counts.
_RECENT = """
    SELECT peak_memory_mib, peak_disk_mib, shortages,
           CASE WHEN status <> 'error' THEN finished_ms - started_ms END AS duration_ms
    FROM jobs
    WHERE project = :project AND name = :name AND finished_ms IS NOT NULL
      AND (status IN ('succeeded', 'failed') OR (status = 'error' AND shortages IS NOT NULL))
    ORDER BY finished_ms DESC LIMIT :limit
"""


async def recent(conn: AsyncConnection, *, project: str, name: str, limit: int = RECENT) -> list[TakenRow]:
    """The last runs of this job that came to an end of their own, or ran out of something; newest first."""
    found = await conn.execute(text(_RECENT), {"project": project, "name": name, "limit": limit})
    return [read(TakenRow, row) for row in found]
