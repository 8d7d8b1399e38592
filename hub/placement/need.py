"""What a job will need, learned from its recent runs: disk, and how long it takes.

The runs meant are finished ones of the same project and job name, newest first. Memory peaks are
shown beside the job but do not gate: the pipeline's own figure does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RECENT = 5  # finished runs that count: enough to outlast one odd run, few enough to forget old ways
SPARE_MIB = 64  # added to every learned figure, because file systems round up


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeed:
    """Disk that gates, and the recent peak behind it. Both None: unknown, does not gate."""

    disk_mib: int | None
    disk_peak_mib: int | None  # None: the figure is the pipeline's own


def disk_need(peaks_mib: Sequence[int | None], asked_mib: int | None) -> DiskNeed:
    """The most that the last five took, plus a quarter, plus 64 MiB; with no history what is asked.

    `peaks_mib` is newest first; None stands for a run whose peak was not measured.
    """
    known = [peak for peak in peaks_mib[:RECENT] if peak is not None]
    if not known:
        return DiskNeed(disk_mib=asked_mib, disk_peak_mib=None)
    peak = max(known)
    return DiskNeed(disk_mib=peak + -(-peak // 4) + SPARE_MIB, disk_peak_mib=peak)


def usual_ms(durations_ms: Sequence[int]) -> int | None:
    """The median of the last five durations, newest first; None: it never ran to its end."""
    recent = durations_ms[:RECENT]
    return int(median(recent)) if recent else None
