"""What the hub may answer, as the agent acts on it.

HubError
├── Away          no answer to rely on: cut, refused, timed out, 429, 5xx. Asked again
├── Over      409 the attempt, or this process's claim, is over; for a log, `offset` is wanted
├── Locked    401, 403  the token is not valid any more: the process ends
├── Missing   404 not there, or not for this token
├── TooLarge  413 over a bound of the hub
└── Refused       any other answer: asking again would not help

"""


class HubError(Exception):
    """The base. `detail` is the hub's own sentence, where it gave one."""

    def __init__(self, detail: str, *, offset: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.offset = offset
        self.retry_after_s = retry_after_s


class Away(HubError):
    """The call may or may not have reached the hub."""


class Over(HubError):
    """What it was meant for is over."""


class Locked(HubError):
    """The token opens nothing."""


class Missing(HubError):
    """There is no such thing for this runner."""


class TooLarge(HubError):
    """More than the hub takes."""


class Refused(HubError):
    """The hub understood, and will not."""


class Aborted(Exception):
    """This side gave the call up."""
