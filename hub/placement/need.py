"""What a job will need, learned from its recent runs: disk, and how long it takes.

The runs meant are finished ones of the same project and job name, newest first. Memory peaks are
learned the same way and shown, but do not gate: the pipeline's own figure does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

RECENT = 5  # finished runs that count: enough to outlast one odd run, few enough to forget old ways
SPARE_MIB = 64  # added to every learned figure, because file systems round up


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What recent runs teach. None: there were none, or none was measured."""

    disk_mib: int | None = None  # what gates: the peak, a quarter of it and SPARE_MIB
    disk_peak_mib: int | None = None
    memory_mib: int | None = None  # likewise; shown only
    memory_peak_mib: int | None = None
    usual_ms: int | None = None  # median duration


def learn(
    *,
    disk_mib: Sequence[int | None] = (),
    memory_mib: Sequence[int | None] = (),
    duration_ms: Sequence[int | None] = (),
) -> Learned:
    """What the first RECENT of each list teach; the lists are newest first, None was not measured."""
    disk_peak, memory_peak = _peak(disk_mib), _peak(memory_mib)
    durations = [duration for duration in duration_ms[:RECENT] if duration is not None]
    return Learned(
        disk_mib=_with_spare(disk_peak),
        disk_peak_mib=disk_peak,
        memory_mib=_with_spare(memory_peak),
        memory_peak_mib=memory_peak,
        usual_ms=int(median(durations)) if durations else None,
    )


def _peak(figures: Sequence[int | None]) -> int | None:
    return max((figure for figure in figures[:RECENT] if figure is not None), default=None)


def _with_spare(peak_mib: int | None) -> int | None:
    return None if peak_mib is None else peak_mib + -(-peak_mib // 4) + SPARE_MIB
