"""What jobs that wait want of a machine, in one short line, for who starts machines.

The facts of the demand alone, in the order in which a machine is chosen: tier, architecture, memory,
CPUs, disk, labels, images. Whether some runner has them is not asked here.
"""

from collections.abc import Callable
from typing import NamedTuple

from hub.placement.model import Demand
from hub.placement.words import count, named, short_hash, short_size


class Machine(NamedTuple):
    """What of a demand says which machine would do. The project stays: a runner may serve but some.

    What differs from job to job on the same machine is left out: priority, what earlier runs took, what
    it ran out of.
    """

    project: str
    tier: str
    arch: str | None
    memory_mib: int | None
    cpus: int | None
    disk_mib: int | None
    labels: frozenset[str]
    images: frozenset[str]


def machine(demand: Demand) -> Machine:
    """The machine that jobs of this demand would run on; jobs that would do with one are counted as one."""
    return Machine(*(getattr(demand, name) for name in Machine._fields))


def wants(jobs: int, of: Machine, image_name: Callable[[str], str | None] = lambda _: None) -> str:
    """`7 jobs want {microvm, aarch64, 16 GiB, image debian-12}`.

    `image_name`: an image's name by its hash; None: it has none, and the short hash stands for it.
    """
    parts = [of.tier]
    if of.arch is not None:
        parts.append(of.arch)
    if of.memory_mib:
        parts.append(short_size(of.memory_mib))
    if of.cpus:
        parts.append(count(of.cpus, "CPU"))
    if of.disk_mib:
        parts.append(f"{short_size(of.disk_mib)} of disk")
    if of.labels:
        parts.append(named("label", sorted(of.labels)))
    if of.images:
        parts.append(named("image", sorted(image_name(one) or short_hash(one) for one in of.images)))
    return f"{count(jobs, 'job')} {'wants' if jobs == 1 else 'want'} {{{', '.join(parts)}}}"
