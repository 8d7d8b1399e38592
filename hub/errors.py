"""What can be wrong with a call, and how it is answered.

    HubError
    ├── BadRequest        400  the words were wrong; `faults` say where
    │   ├── Unprocessable 422  the pipeline file is
    │   └── BadImage      422  a chunk, a body of chunks or a manifest is not what it should be
    ├── Unauthorised      401  no token, or one that is not valid
    ├── Forbidden         403  known, but not for this token
    ├── NotFound          404  not there, or not within this token's reach: the two look the same
    ├── Conflict          409  the state it was meant for is over; for a log, `offset` is what is wanted
    ├── TooLarge          413  over a bound
    ├── Overloaded        503  try again, after `retry_after_s`
    └── StorageFull       507  the hub's disk is full

An expected outcome inside the hub is a value; these are only for what a caller is told.
"""

from hub.wire.problem import Fault


class HubError(Exception):
    """The base: `detail` says what to do about it."""

    status = 500
    title = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        faults: list[Fault] | None = None,
        offset: int | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = faults or []
        self.offset = offset
        self.retry_after_s = retry_after_s


class BadRequest(HubError):
    status = 400
    title = "Bad request"


class Unprocessable(BadRequest):
    status = 422
    title = "The pipeline is not valid"


class BadImage(BadRequest):
    status = 422
    title = "The image is not valid"


class Unauthorised(HubError):
    status = 401
    title = "Not signed in"


class Forbidden(HubError):
    status = 403
    title = "Not allowed"


class NotFound(HubError):
    status = 404
    title = "Not found"


class Conflict(HubError):
    status = 409
    title = "Conflict"


class TooLarge(HubError):
    status = 413
    title = "Too large"


class Overloaded(HubError):
    status = 503
    title = "Overloaded"


class StorageFull(HubError):
    status = 507
    title = "The hub's disk is full"
