"""A job that ran out of memory or disk: what it asks for from then on, and the sentences that say so.

Invariant: what it ended for want of is never thought enough again. After it ran out of memory it asks
for half as much again as it had; after it ran out of disk for what a recent peak teaches (`need`), and
never for less than before. Whether some runner has that much is for `fit` to say, not for this module.
"""

from collections.abc import Iterable
from dataclasses import replace

from hub.placement.model import Demand, Shortage, Want
from hub.placement.need import more_mib
from hub.placement.words import size, two_sizes


def shortage(
    demand: Demand, of: Want, runner: str, peak_mib: int | None, before: Iterable[Shortage] = ()
) -> Shortage | None:
    """What it means that an attempt with this demand ran out of `of` on `runner`, having taken `peak_mib`.

    `before`: what the job ran out of earlier. None: no figure is known that the next could exceed.
    """
    if of == "memory":
        had = peak_mib if demand.memory_mib is None else demand.memory_mib
        return (
            None if had is None else Shortage(of=of, had_mib=had, asks_mib=had + -(-had // 2), runner=runner)
        )
    had = demand.disk_mib if peak_mib is None else peak_mib
    if had is None:
        return None
    asks = max(more_mib(had), demand.disk_mib or 0)
    for one in before:
        if one.of == of and one.had_mib >= had:
            return replace(one, asks_mib=max(asks, one.asks_mib))
    return Shortage(of=of, had_mib=had, asks_mib=asks, runner=runner)


def with_shortage(known: Iterable[Shortage], new: Shortage) -> tuple[Shortage, ...]:
    """The shortages of a job once `new` is among them: the newest of each kind, memory first."""
    newest = {one.of: one for one in (*known, new)}
    return tuple(newest[of] for of in sorted(newest, reverse=True))


def raised(demand: Demand, shortages: Iterable[Shortage]) -> Demand:
    """`demand` of a job that ran out of these; one that asks for more anyway does so for its own reason."""
    for one in shortages:
        figure = demand.memory_mib if one.of == "memory" else demand.disk_mib
        if figure is not None and figure > one.asks_mib:
            continue
        if one.of == "memory":
            demand = replace(demand, memory_mib=one.asks_mib)
        else:
            demand = replace(demand, disk_mib=one.asks_mib)
        demand = replace(demand, shortages=with_shortage(demand.shortages, one))
    return demand


def could_have_mib(
    of: Want, asked_mib: int | None, shortages: Iterable[Shortage], short: str | None
) -> int | None:
    """What the newest attempt at a job could have of `of`, or the next will. None: no figure holds it.

    `asked_mib`: what the pipeline asks; `short`: what the newest attempt ended for want of, if it did.
    """
    for one in shortages:
        if one.of != of:
            continue
        if short != of:
            return max(asked_mib or 0, one.asks_mib)
        return one.had_mib if of == "memory" else asked_mib
    return asked_mib


def asking_parts(demand: Demand) -> list[str]:
    """`asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1`, for each shortage that counts."""
    return [_asking(one) for one in demand.shortages]


def ran_out(demand: Demand, of: Want) -> str | None:
    """`it ran out of 4.9 GiB on mars-1`: why `demand` asks for so much; None: not for a shortage."""
    for one in demand.shortages:
        if one.of == of:
            return f"it ran out of {_figure(of, one.had_mib)} on {one.runner}"
    return None


def ended_sentence(of: Want, found: Shortage | None, runner: str, *, more: bool) -> str:
    """`ran out of memory with 8192 MiB on mars-1; no runner has more`. `more`: some runner could hold it.

    `found` None: how much it had is not known.
    """
    had = ""
    if found is not None:
        had = f" {'with' if of == 'memory' else 'at'} {_figure(of, found.had_mib)}"
        runner = found.runner
    return f"ran out of {of}{had} on {runner}{'' if more else '; no runner has more'}"


def _asking(one: Shortage) -> str:
    if one.of == "memory":
        return f"asking {one.asks_mib} MiB of memory, as it ran out of {one.had_mib} MiB on {one.runner}"
    asks, had = two_sizes(one.asks_mib, one.had_mib)
    return f"asking ~{asks} of disk, as it ran out at {had} on {one.runner}"


def _figure(of: Want, mib: int) -> str:
    """Memory in MiB and disk as a size, as the sentences of their lacks say them."""
    return f"{mib} MiB" if of == "memory" else size(mib)
