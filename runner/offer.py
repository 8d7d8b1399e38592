"""What this machine offers, as the wire's `Claim`: made anew for each poll from facts just read."""

from collections.abc import Sequence
from dataclasses import dataclass

from hub.wire.claim import Claim, Facts, Live
from runner import facts, speed
from runner.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What does not change while the process lives."""

    config: Config
    instance: str | None
    score: int
    arch: str | None
    kernel: str | None
    os: str | None
    cpu: str | None

    @classmethod
    def of(cls, config: Config, instance: str | None) -> "Offer":
        """Look at the machine; measures its speed unless that is known."""
        return cls(
            config=config,
            instance=instance,
            score=config.speed or speed.known(config.work),
            arch=facts.arch(),
            kernel=facts.kernel(),
            os=facts.os_name(),
            cpu=facts.cpu_model(),
        )

    def claim(self, claim_id: str | None, running: Sequence[Live], *, wait_s: float | None = None) -> Claim:
        """The claim, with facts of now. `wait_s` None: as configured."""
        config = self.config
        memory = facts.memory()
        return Claim(
            tiers=list(config.tiers),
            claim_id=claim_id,
            instance=self.instance,
            arch=self.arch,
            labels=list(config.labels),
            exclusive=config.exclusive,
            max_jobs=config.max_jobs,
            cpus=config.cpus or facts.cpus(),
            memory_mib=config.memory_mib or (memory.total_mib if memory else None),
            reserve_mib=config.reserve_mib,
            facts=Facts(
                speed=self.score,
                speed_class=speed.class_of(self.score),
                free_disk_mib=facts.free_disk_mib(config.work),
                load1=facts.load1(),
                memory_used_mib=memory.used_mib if memory else None,
                kernel=self.kernel,
                os=self.os,
                cpu=self.cpu,
            ),
            running=list(running),
            wait_s=config.wait_s if wait_s is None else wait_s,
        )
