"""How figures and lists are put into words, the same in every sentence of placement.

Invariant: two figures that are compared in one sentence and differ never read the same.
No sentence is made here: those of lacks stand in `lack`, the others in `placed` and `waiting`.
"""

from collections.abc import Sequence

MAX_NAMED = 5  # names in one sentence; a longer list is counted, so that a headline stays one line


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listing(names: Sequence[str]) -> str:
    """`a, b, c`; beyond MAX_NAMED the rest is counted: `a, b, c, d, e and 3 more`."""
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more"


def named(noun: str, names: Sequence[str]) -> str:
    """`label gpu`, `labels gpu, ssd`."""
    return f"{noun} {listing(names)}" if len(names) == 1 else f"{noun}s {listing(names)}"


def short_hash(image: str) -> str:
    """The first 12 characters: what a person compares, and enough to be unique in practice."""
    return image[:12]


def whole_seconds_up(ms: int) -> int:
    """Seconds, rounded up, so that a limit that is just passed does not read as if it were kept."""
    return -(-ms // 1000)


def duration(ms: int) -> str:
    """`42 s`, `5 min`, `3 h`, `4 days`: rounded up below two minutes, down above."""
    seconds = whole_seconds_up(ms)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} days"


def size(mib: int) -> str:
    """`3.2 GiB`; below one GiB `512 MiB`."""
    return f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def two_sizes(one_mib: int, other_mib: int) -> tuple[str, str]:
    """Both as `size` says them, or both in MiB where different figures would read the same."""
    one, other = size(one_mib), size(other_mib)
    if one == other and one_mib != other_mib:
        return f"{one_mib} MiB", f"{other_mib} MiB"
    return one, other


def share(one_mib: int, all_mib: int) -> str:
    """`1.2 of 2 GiB`, `411 of 512 MiB`, `411 MiB of 2 GiB`: how much there is of how much."""
    if max(one_mib, all_mib) < 1024:
        return f"{one_mib} of {all_mib} MiB"
    if min(one_mib, all_mib) < 1024:
        return f"{short_size(one_mib)} of {short_size(all_mib)}"
    one, all_ = (short_size(mib).removesuffix(" GiB") for mib in (one_mib, all_mib))
    if one == all_ and one_mib != all_mib:
        return f"{one_mib} of {all_mib} MiB"
    return f"{one} of {all_} GiB"


def short_size(mib: int) -> str:
    """As `size`, whole gibibytes without a decimal."""
    return f"{mib // 1024} GiB" if mib >= 1024 and mib % 1024 == 0 else size(mib)


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`, `22nd`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"
