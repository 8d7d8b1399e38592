"""Every lack's sentence and remedy, each made in one place.

A sentence reads after the runner's name. A remedy is one change to the runner, the job or the hub,
in words and as a value; it names no runner, because it is also shown to readers who may not know
the runner's name. Whether there is a lack is decided in `fit`, not here.
"""

from collections.abc import Iterable
from dataclasses import replace

from hub.placement.headroom import Headroom
from hub.placement.model import Decline, Kept, Lack, Remedy, Settings
from hub.placement.words import count, duration, listing, named, short_hash, size, two_sizes

ORDER = (
    "quarantined", "draining", "silent", "scope", "tier", "arch", "image", "label",
    "kept", "memory", "cpus", "disk", "declined", "slots",
)  # fmt: skip
SIZE = frozenset({"memory", "cpus", "disk"})  # where passing: smaller jobs may take what comes free
ROOM = SIZE | {"slots"}  # where passing: a matter of waiting for room

_STATE = frozenset({"quarantined", "draining"})  # a word of an admin mends it: nothing is missing

_PLURAL = {
    "is": "are",
    "has": "have",
    "does": "do",
    "lacks": "lack",
    "serves": "serve",
    "takes": "take",
    "runs": "run",
    "was": "were",
}


def distance(found: Iterable[Lack]) -> tuple[int, int, int]:
    """How far a runner with these lacks is from a fit; (0, 0, 0): it fits. Never more changes before fewer.

    Lasting lacks but for its state, all lasting lacks, all lacks: so of two runners that one change
    would mend, the one that is merely draining is nearer than one that lacks something.
    """
    missing = lasting = total = 0
    for lack in found:
        total += 1
        if lack.lasting:
            lasting += 1
            missing += lack.code not in _STATE
    return missing, lasting, total


def said_of_many(text: str) -> str:
    """A lack's sentence as it reads after "all": `lacks label gpu` becomes `lack label gpu`."""
    verb, space, rest = text.partition(" ")
    many = f"{_PLURAL.get(verb, verb)}{space}{rest}"
    return many.replace("(it offers ", "(they offer ")


def as_told(found: tuple[Lack, ...], *, everywhere: bool) -> tuple[Lack, ...]:
    """The lacks for one reader; `everywhere`: one who may see all projects."""
    if everywhere or all(lack.abroad is None for lack in found):
        return found
    return tuple(lack if lack.abroad is None else replace(lack, text=lack.abroad) for lack in found)


def _lack(code: str, text: str, *, lasting: bool, remedy: str, key: str, change: object) -> Lack:
    return Lack(code=code, text=text, lasting=lasting, remedy=Remedy(text=remedy, change=((key, change),)))


def quarantined(reason: str) -> Lack:
    """The hub or an admin took the runner out; `reason` as it was given, may be empty."""
    return _lack(
        "quarantined",
        f"is quarantined: {reason}" if reason else "is quarantined",
        lasting=True,
        remedy="mend what is said there and resume the runner (`shunter runners resume`)",
        key="runner.state",
        change={"set": "active"},
    )


def draining() -> Lack:
    """The runner finishes what it has."""
    return _lack(
        "draining",
        "is draining",
        lasting=True,
        remedy="resume the runner (`shunter runners resume`)",
        key="runner.state",
        change={"set": "active"},
    )


def silent(unheard_ms: int | None, settings: Settings) -> Lack:
    """Not heard from for `unheard_ms`; None: it never polled."""
    if unheard_ms is None:
        text = "never polled"
    else:
        limit = duration(settings.silent_ms)
        text = f"has not been heard from for {duration(unheard_ms)} ({limit} at most)"
    return _lack(
        "silent",
        text,
        lasting=False,
        remedy="start the runner, or find out why it does not reach the hub",
        key="runner.waiting",
        change={"set": True},
    )


def scope(project: str) -> Lack:
    """The runner serves another owner or project than `project`."""
    return _lack(
        "scope",
        "serves other repositories",
        lasting=True,
        remedy=f"widen the runner's scope so that it serves {project}",
        key="runner.scope",
        change={"set": {}},
    )


def tier(wanted: str, offered: tuple[str, ...]) -> Lack:
    """The runner offers other tiers than the one wanted."""
    return _lack(
        "tier",
        f"has no {wanted} tier (it offers {listing(offered)})",
        lasting=True,
        remedy=f"offer the tier {wanted} on the runner, or ask for {' or '.join(offered)} in the job",
        key="runner.tiers",
        change={"add": [wanted]},
    )


def arch(wanted: str, has: str) -> Lack:
    """The runner's architecture is not the one wanted."""
    return _lack(
        "arch",
        f"is {has}; the job needs {wanted}",
        lasting=True,
        remedy=f"add a runner that is {wanted}, or make the job ask for {has}",
        key="job.arch",
        change={"set": has},
    )


def image(missing: frozenset[str], *, fetches: bool) -> Lack:
    """Images that are missing: on a runner that fetches, those that the hub lacks too."""
    hashes = sorted(missing)
    names = named("image", [short_hash(one) for one in hashes])
    it = "it" if len(hashes) == 1 else "them"
    if fetches:
        return _lack(
            "image",
            f"does not hold {names} (nor does the hub: send {it} with `shunter image push`)",
            lasting=True,
            remedy=f"send {names} to the hub with `shunter image push`",
            key="hub.images",
            change={"add": hashes},
        )
    return _lack(
        "image",
        f"does not hold {names}",
        lasting=True,
        remedy=f"put {names} on the runner, or let it fetch images from the hub",
        key="runner.images",
        change={"add": hashes},
    )


def label(missing: frozenset[str]) -> Lack:
    """Labels that the job asks for and the runner has not."""
    labels = sorted(missing)
    it = "it" if len(labels) == 1 else "them"
    return _lack(
        "label",
        f"lacks {named('label', labels)}",
        lasting=True,
        remedy=f"add the {named('label', labels)} to a runner, or drop {it} from the job",
        key="runner.labels",
        change={"add": labels},
    )


def exclusive(labels: frozenset[str]) -> Lack:
    """The runner is kept for jobs that ask for one of its `labels`; this one asks for none."""
    own = sorted(labels)
    if not own:
        return _lack(
            "label",
            "takes only jobs that ask for one of its labels; it has none",
            lasting=True,
            remedy="give the runner a label, or let it take every job",
            key="runner.exclusive",
            change={"set": False},
        )
    which = f"label {own[0]}" if len(own) == 1 else f"one of the labels {listing(own)}"
    return _lack(
        "label",
        f"takes only jobs that ask for {which}; this job asks for none",
        lasting=True,
        remedy=f"make the job ask for label {own[0]}, or let the runner take every job",
        key="job.labels",
        change={"add": own[:1]},
    )


def memory_never(need_mib: int, total_mib: int, most_mib: int, ran_out: str | None = None) -> Lack:
    """The job needs more than the runner could give with nothing on it (`most_mib`).

    `ran_out`: the words of the shortage for which it needs so much; None: it asks for that much itself.
    """
    has = f"has {total_mib} MiB"
    if need_mib <= total_mib:
        has = f"can give jobs {max(0, most_mib)} MiB of its {total_mib} MiB"
    return _lack(
        "memory",
        f"{has}; the job needs {need_mib} MiB{_because(ran_out)}",
        lasting=True,
        remedy=f"add a runner with more memory, or make the job {_ask_for(most_mib, ran_out)}",
        key="job.memory_mib",
        change={"set": max(0, most_mib)},
    )


def memory_now(
    need_mib: int,
    total_mib: int,
    observed_mib: int | None,
    free_mib: int,
    room: Headroom,
    ran_out: str | None = None,
) -> Lack:
    """The runner has the memory, but not free. Names what holds it: jobs, the machine, or both.

    `ran_out`: see `memory_never`.
    """
    held = f"{count(room.committed_jobs, 'job')} {_hold(room.committed_jobs)} {room.committed_mib} MiB"
    if room.committed_mib == 0:
        held = f"{room.used_mib} MiB are in use"
    elif (observed_mib or 0) > room.committed_mib:
        held = f"{observed_mib} MiB are in use, {held}"
    free_mib = max(0, free_mib)
    return _lack(
        "memory",
        f"has {free_mib} MiB free of {total_mib} MiB ({held}); the job needs {need_mib} MiB"
        + _because(ran_out),
        lasting=False,
        remedy=f"wait until memory is free there, or make the job {_ask_for(free_mib, ran_out)}",
        key="job.memory_mib",
        change={"set": free_mib},
    )


def cpus_never(need: int, total: int) -> Lack:
    """The job needs more CPUs than the runner has."""
    return _lack(
        "cpus",
        f"has {count(total, 'CPU')}; the job needs {need}",
        lasting=True,
        remedy=f"add a runner with more CPUs, or make the job ask for {count(total, 'CPU')}",
        key="job.cpus",
        change={"set": total},
    )


def cpus_now(need: int, total: int, free: int) -> Lack:
    """The runner has the CPUs, but not free."""
    free = max(0, free)
    return _lack(
        "cpus",
        f"has {count(free, 'CPU')} free of {total}; the job needs {need}",
        lasting=False,
        remedy=f"wait until a job there ends, or make the job ask for {count(free, 'CPU')}",
        key="job.cpus",
        change={"set": free},
    )


def disk(
    job_mib: int, fetch_mib: int, peak_mib: int | None, free_mib: int, ran_out: str | None = None
) -> Lack:
    """Too little disk for the job (`job_mib`) and the images to fetch (`fetch_mib`).

    `peak_mib`: the recent peak behind a learned figure; None: the pipeline's own figure. `ran_out`:
    the words of the shortage behind it, which then says more than the peak.
    """
    need_mib = job_mib + fetch_mib
    free, need = two_sizes(max(0, free_mib), need_mib)
    whence = []
    if ran_out is not None:
        need = f"~{need}"
        whence.append(ran_out)
    elif peak_mib is not None:
        need = f"~{need}"
        whence.append(f"its recent runs took up to {size(peak_mib)}")
    if fetch_mib:
        whence.append(f"{size(fetch_mib)} of it for images to fetch")
    why = f" ({', '.join(whence)})" if whence else ""
    return _lack(
        "disk",
        f"has {free} free; the job needs {need}{why}",
        lasting=False,
        remedy=f"free {size(need_mib - free_mib)} on the runner's disk",
        key="runner.free_disk_mib",
        change={"add": need_mib - free_mib},
    )


def kept(what: Kept, project: str, now_ms: int) -> Lack:
    """The runner is kept for a job that smaller ones kept out; `project` is that of the job that asks."""
    waited = duration(now_ms - what.queued_ms)
    return replace(
        _lack(
            "kept",
            f"is kept for job {what.job} (waiting {waited})",
            lasting=False,
            remedy=f"wait until that job has begun, or give this one a priority of {what.priority + 1}",
            key="job.priority",
            change={"set": what.priority + 1},
        ),
        abroad=None if what.demand.project == project else f"is kept for another job (waiting {waited})",
    )


def declined(decline: Decline, now_ms: int, settings: Settings) -> Lack:
    """The runner gave the job back; it is asked again when the decline ends."""
    left = duration(decline.at_ms + settings.decline_ms - now_ms)
    return _lack(
        "declined",
        f"declined it: {decline.reason}" if decline.reason else "declined it",
        lasting=False,
        remedy=f"mend what it says; it is asked again in {left}",
        key="job.declines",
        change={"remove": [decline.runner]},
    )


def slots(free: int, most: int) -> Lack:
    """As many jobs are there as the runner takes, or more."""
    return _lack(
        "slots",
        f"runs {most - free} of {most} jobs",
        lasting=False,
        remedy="wait until a job there ends, or let the runner take more jobs",
        key="runner.max_jobs",
        change={"set": most - free + 1},
    )


def _because(ran_out: str | None) -> str:
    return f" ({ran_out})" if ran_out is not None else ""


def _ask_for(mib: int, ran_out: str | None) -> str:
    """What a job that ran out asks for is not the pipeline's figure: it is to be made smaller itself."""
    return f"{'ask for' if ran_out is None else 'do with'} {max(0, mib)} MiB or less"


def _hold(number: int) -> str:
    return "holds" if number == 1 else "hold"
