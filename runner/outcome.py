"""How a job ended, as this side knows it, and the words for what it ran out of."""

import errno
from dataclasses import dataclass

from hub.wire.base import plain_text
from hub.wire.claim import AssignedJob, Outcome, Short
from runner.sandbox.base import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended."""

    outcome: Outcome
    exit_code: int | None = None
    error: str | None = None
    short: Short | None = None  # what it failed for want of; None: of nothing that is known


def ran_out(short: Short, job: AssignedJob, usage: Usage) -> str:
    """Of what, how much the job asked for, and how much it took."""
    asked, taken = (
        (job.memory_mib, usage.peak_memory_mib) if short == "memory" else (job.disk_mib, usage.peak_disk_mib)
    )
    words = "none" if asked is None else f"{asked} MiB"
    return f"ran out of {short}: {words} asked, {taken or 0} MiB taken"


def is_full(error: Exception) -> bool:
    """Whether a disk, or what this user may have of one, was full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def reason(error: Exception) -> str:
    """Why a job could not be prepared, in a sentence."""
    text = (
        f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    )
    return plain_text(f"the job could not be prepared: {text}", 300)
