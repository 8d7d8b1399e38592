"""What a job will need, learned from its recent runs: disk, memory, and how long it takes.

The runs meant are finished ones of the same project and job name, newest first. What a run ran out of
counts as its peak: it needs more than that. Memory peaks are shown beside the job but do not gate: the
pipeline's own figure does, and what the job itself ran out of (`shortage`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from hub.placement.words import share, short_size

RECENT = 5  # finished runs that count: enough to outlast one odd run, few enough to forget old ways
SPARE_MIB = 64  # added to every learned figure, because file systems round up


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeed:
    """Disk that gates, and the recent peak behind it. Both None: unknown, does not gate."""

    disk_mib: int | None
    disk_peak_mib: int | None  # None: the figure is the pipeline's own


def disk_need(peaks_mib: Sequence[int | None], asked_mib: int | None) -> DiskNeed:
    """The most that the last five took, plus a quarter, plus 64 MiB; with no history what is asked.

    `peaks_mib` is newest first, each as `peak_of` has it; None stands for a run that was not measured.
    """
    peak = recent_peak(peaks_mib)
    if peak is None:
        return DiskNeed(disk_mib=asked_mib, disk_peak_mib=None)
    return DiskNeed(disk_mib=more_mib(peak), disk_peak_mib=peak)


def more_mib(peak_mib: int) -> int:
    """Room for a run that may take a little more disk than `peak_mib`: a quarter more, and 64 MiB."""
    return peak_mib + -(-peak_mib // 4) + SPARE_MIB


def peak_of(peak_mib: int | None, ran_out_mib: int | None) -> int | None:
    """The disk that a run took, of which an attempt ran out at `ran_out_mib`. None: not measured; it did not.

    A run that ended well with less, after an attempt of it ran out, does not make the room enough.
    """
    return max((one for one in (peak_mib, ran_out_mib) if one is not None), default=None)


def recent_peak(peaks_mib: Sequence[int | None]) -> int | None:
    """The most of the last five, newest first; None: none was measured."""
    return max((peak for peak in peaks_mib[:RECENT] if peak is not None), default=None)


def takes_phrase(of: str, used_mib: int | None, asked_mib: int | None, recent_mib: int | None) -> str:
    """`memory 1.2 of 2 GiB (recent runs up to 1.4 GiB)`, with what is known of it; empty: nothing is."""
    if used_mib is not None:
        said = f"{of} {short_size(used_mib) if asked_mib is None else share(used_mib, asked_mib)}"
    elif asked_mib is not None:
        said = f"{of} {short_size(asked_mib)} asked"
    elif recent_mib is not None:
        said = of
    else:
        return ""
    return said if recent_mib is None else f"{said} (recent runs up to {short_size(recent_mib)})"


def usual_ms(durations_ms: Sequence[int]) -> int | None:
    """The median of the last five durations, newest first; None: it never ran to its end."""
    recent = durations_ms[:RECENT]
    return int(median(recent)) if recent else None
