"""What every use case works with. A value that holds the parts; it has no behaviour of its own."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from hub.blobs import Blobs
from hub.clock import Clock
from hub.config import Config
from hub.dispatch.dispatcher import Dispatcher
from hub.dispatch.events import Events
from hub.logs import Logs
from hub.service.access import Tokens
from hub.service.images_live import Catalogue
from hub.service.tally import Tally
from hub.store.engine import Store
from hub.store.queue_day import Day


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """What the last finished runs of a job took, newest first. None: that run did not measure it.

    A run that ran out of disk counts as having taken at least what it had then (`need.peak_of`).
    """

    peaks_disk_mib: tuple[int | None, ...]
    peaks_memory_mib: tuple[int | None, ...]
    durations_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """One running hub."""

    config: Config
    clock: Clock
    store: Store
    dispatch: Dispatcher
    blobs: Blobs
    logs: Logs
    spool: Path  # a folder for uploads that are not whole yet
    tokens: Tokens = field(default_factory=Tokens)
    images: Catalogue = field(default_factory=Catalogue)
    recent: dict[tuple[str, str], Recent] = field(default_factory=dict)  # by project and job name
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a report is read
    tally: Tally = field(default_factory=Tally)
    days: dict[tuple[str | None, str | None], Day] = field(default_factory=dict)  # by scope: see queue_day

    @property
    def events(self) -> Events:
        return self.dispatch.events

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.clock.now_ms()
