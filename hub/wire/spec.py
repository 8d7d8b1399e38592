"""A job as its pipeline asks for it: what the parser makes, the store keeps and dispatch reads."""

from pydantic import Field

from hub.wire.base import Answer
from hub.wire.claim import ImageRef, Step

DEFAULT_TIMEOUT_S = 3600


class Concurrency(Answer):
    """At most `limit` jobs of a group run at a time."""

    group: str
    limit: int = 1
    cancel_running: bool = False


class JobSpec(Answer):
    """One job, matrix expanded, sandbox resolved.

    Until the run is submitted an image named `debian-12` has an empty hash, and a step's image is
    that name; then each gets its hash. None: not asked.
    """

    name: str
    tier: str
    arch: str | None = None
    images: list[ImageRef] = Field(default=[], description="the sandbox's first, then those of steps")
    labels: list[str] = []
    needs: list[str] = []
    env: dict[str, str] = {}
    steps: list[Step]
    artifacts: list[str] = []
    reports: dict[str, list[str]] = {}
    timeout_s: int = DEFAULT_TIMEOUT_S
    retries: int = Field(default=0, description="after a failure of the machinery, or for want of room")
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None
    network: bool | None = Field(default=None, description="None: as the runner is set")
    concurrency: Concurrency | None = None
    keep: str | None = None


class Pipeline(Answer):
    """A whole pipeline file, checked."""

    jobs: list[JobSpec]
