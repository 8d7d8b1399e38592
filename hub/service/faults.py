"""Faults of the machine under the hub that a caller can be told of."""

from hub.errors import HubError, Overloaded, StorageFull
from hub.store import errors as store


def of_machine(error: BaseException) -> HubError | None:
    """What the caller is told of `error`; None: it is a fault of the hub's own."""
    if store.is_disk_full(error):
        return StorageFull("free some space on the hub's disk; nothing of this call was kept")
    if isinstance(error, store.Overloaded):
        return Overloaded("the hub has more to write than it can: try again", retry_after_s=1)
    return None
