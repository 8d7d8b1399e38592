"""Which tiers this runner offers: those it was told to, less those whose check failed here.

Invariant: what is offered was tried on this machine by this process. A job that asks for a tier never
gets a weaker one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hub.wire.claim import AssignedJob
from runner.sandbox import microvm_check
from runner.sandbox.base import Sandbox, SandboxBroken
from runner.sandbox.microvm import MicrovmSandbox
from runner.sandbox.namespace import Asked, Means, NamespaceSandbox
from runner.sandbox.namespace_check import Found, check
from runner.sandbox.place import program
from runner.sandbox.process import ProcessSandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """`offered`, in the order they were asked for; `why`: each that is not, with the reason."""

    offered: tuple[str, ...] = ("process",)
    why: Mapping[str, str] | None = None
    namespace: Means | None = None
    network: bool = False  # whether a job of a tier with images can have one
    found: Found | None = None
    guests: microvm_check.Found | None = None

    def sandbox(self, job: AssignedJob, folder: Path, *, grace_s: float) -> Sandbox:
        """A sandbox of the job's tier. Raises SandboxBroken, where this runner cannot make one."""
        if job.tier not in self.offered:
            raise SandboxBroken(f"this runner has no {job.tier} tier")
        if job.tier == "process":
            return ProcessSandbox(folder, grace_s=grace_s)
        if job.network and not self.network:
            raise SandboxBroken("it asks for a network, and slirp4netns is not installed here")
        asked = Asked(
            memory_mib=job.memory_mib,
            cpus=job.cpus,
            disk_mib=job.disk_mib,
            network=bool(job.network),
        )
        if job.tier == "microvm":
            assert self.guests is not None
            assert self.guests.means is not None
            leaves = bool(job.artifacts or job.reports)
            return MicrovmSandbox(folder, self.guests.means, asked, grace_s=grace_s, leaves=leaves)
        assert self.namespace is not None
        return NamespaceSandbox(folder, self.namespace, asked, grace_s=grace_s)


def find(asked: tuple[str, ...], work: Path) -> Tiers:
    """Try the tiers asked for."""
    found = check(work) if "namespace" in asked else None
    guests = microvm_check.check(work) if "microvm" in asked else None
    why = {
        tier: each.why or "its check failed"
        for tier, each in (("namespace", found), ("microvm", guests))
        if each is not None and each.means is None
    }
    return Tiers(
        offered=tuple(tier for tier in asked if tier not in why),
        why=why,
        namespace=None if found is None else found.means,
        network=program("slirp4netns") is not None,
        found=found,
        guests=guests,
    )


def lines(tiers: Tiers) -> list[str]:
    """What was found, for people."""
    told = [f"tier {tier}: yes" for tier in tiers.offered]
    told += [f"tier {tier}: no: {why}" for tier, why in (tiers.why or {}).items()]
    if tiers.guests is not None:
        told += microvm_check.lines(tiers.guests, network=program("slirp4netns"))
    found = tiers.found
    if found is None:
        return told
    told.append(f"bubblewrap: {found.bubblewrap or 'none'}")
    told.append(f"network: {found.network or 'none (slirp4netns is not installed)'}")
    if found.means is not None:
        told.append(f"images: {found.images}" + (" (loop device, id-mapped)" if found.means.mounts else ""))
        told.append("writable layer: overlay")
        told.extend(f"limit {name}: {how}" for name, how in found.limits.items())
    told.append(f"checked in {found.took_s * 1000:.0f} ms")
    return told
