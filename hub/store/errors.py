"""What can go wrong in the store.

    StoreError
    ├── Overloaded    the queue of writes is full: nothing was written, try again later
    ├── Closed        the writer has been closed: nothing was written
    ├── Taken         a name or a key is in use already
    ├── InUse         another hub has this database open
    ├── SchemaError   the database and this version of the hub do not fit together
    └── BadUrl        the database URL is of no kind that the store knows

What the database itself reports (a full disk, say) passes through as SQLAlchemy's own errors.
"""

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError


class StoreError(Exception):
    """The base: its text says what to do about it."""


class Overloaded(StoreError):
    """More writes wait than the bound allows."""


class Closed(StoreError):
    """The store is shutting down."""


class Taken(StoreError):
    """The name is in use already."""


class InUse(StoreError):
    """Another process has the database open for writing."""


class SchemaError(StoreError):
    """The schema is newer than the code, or cannot be brought up to it."""


class BadUrl(StoreError):
    """Neither a SQLite file nor a PostgreSQL database."""


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a full disk, or a quota, is behind `error`."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            return True
        if getattr(error, "sqlstate", None) == "53100":  # PostgreSQL: disk full
            return True
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return False
