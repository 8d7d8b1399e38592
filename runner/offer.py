"""What this machine offers, as the wire's `Claim`: made anew for each poll from facts just read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hub.wire.claim import Claim, Facts, Live
from runner import facts, speed
from runner.config import Config
from runner.job import ImageSource


class ImageCache(ImageSource, Protocol):
    """The images of a runner, as its claims tell of them; see `images.Images`."""

    changed: Callable[[], None]  # called when any of the following has changed

    def held(self) -> dict[str, str | None]:
        """The architecture of each image that is here; None: not known."""

    def fetching(self) -> tuple[str, ...]:
        """Images that are on their way."""

    def taken_mib(self) -> int:
        """What those have taken of the disk so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What does not change while the process lives. `images` None: no tier of it uses any."""

    config: Config
    instance: str | None
    score: int
    arch: str | None
    kernel: str | None
    os: str | None
    cpu: str | None
    images: ImageCache | None = None

    @classmethod
    def of(cls, config: Config, instance: str | None, images: ImageCache | None = None) -> "Offer":
        """Look at the machine; measures its speed unless that is known."""
        return cls(
            config=config,
            instance=instance,
            score=config.speed or speed.known(config.work),
            arch=facts.arch(),
            kernel=facts.kernel(),
            os=facts.os_name(),
            cpu=facts.cpu_model(),
            images=images,
        )

    def claim(self, claim_id: str | None, running: Sequence[Live], *, wait_s: float | None = None) -> Claim:
        """The claim, with facts of now. `wait_s` None: as configured."""
        config = self.config
        memory = facts.memory()
        held = {} if self.images is None else self.images.held()
        return Claim(
            tiers=list(config.tiers),
            claim_id=claim_id,
            instance=self.instance,
            arch=self.arch,
            labels=list(config.labels),
            exclusive=config.exclusive,
            images=list(held),
            image_archs={image: arch for image, arch in held.items() if arch is not None},
            fetches_images=self.images is not None,
            fetching=[] if self.images is None else list(self.images.fetching()),
            max_jobs=config.max_jobs,
            cpus=config.cpus or facts.cpus(),
            memory_mib=config.memory_mib or (memory.total_mib if memory else None),
            reserve_mib=config.reserve_mib,
            facts=Facts(
                speed=self.score,
                speed_class=speed.class_of(self.score),
                free_disk_mib=self._free_disk_mib(),
                load1=facts.load1(),
                memory_used_mib=memory.used_mib if memory else None,
                kernel=self.kernel,
                os=self.os,
                cpu=self.cpu,
                accel=config.accel,
            ),
            running=list(running),
            wait_s=config.wait_s if wait_s is None else wait_s,
        )

    def _free_disk_mib(self) -> int | None:
        """What is free; what images on their way have taken counts as free.

        For the hub counts each of them in full until it is held, and would else count it twice.
        """
        free = facts.free_disk_mib(self.config.work)
        return free if free is None or self.images is None else free + self.images.taken_mib()
