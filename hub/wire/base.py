"""The bases of every message, and the field types with their bounds.

A bound stands here once, with its reason, and reaches the OpenAPI document from here.
"""

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
)

# C0 and C1 controls and the bidirectional overrides: they can forge what a terminal or a page shows.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNSAFE_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

MAX_LABELS = 64  # more than any fleet was seen to use; a claim is judged label by label
MAX_IMAGES = 1000  # what one runner's disk can hold of 100 MB images on 100 GB
MAX_RUNNING = 1000  # sandboxes one runner may report
MAX_JOBS = 500  # jobs of one run, matrix expanded
MAX_STEPS = 200  # steps of one job
MAX_MIB = 2**40  # 1 EiB in MiB: larger figures are faults of the sender
MAX_BODY_BYTES = 4 * 2**20  # any JSON body; workspaces, logs and artifacts have bounds of their own
MAX_LOG_PIECE_BYTES = 2**20  # one piece of a log in one request
MAX_WAIT_S = 50  # shorter than any sane proxy's limit of 60 s


class Request(BaseModel):
    """A message to the hub: an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=4 * 2**20)


class Answer(BaseModel):
    """A message from the hub: a reader ignores what it does not know, so that hubs go first."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _plain(text: str) -> str:
    """One line of shown text, or an error: no control and no bidirectional override characters."""
    if found := _UNSAFE.search(text):
        raise ValueError(f"holds the control character U+{ord(found[0]):04X}")
    return text


def plain_text(text: str, limit: int = 1000) -> str:
    """`text` made safe to show: control characters replaced by U+FFFD, cut at `limit` characters."""
    return _UNSAFE_TEXT.sub("\ufffd", text)[:limit]


_ANYTHING: TypeAdapter[object] = TypeAdapter(object)


def to_json(value: object) -> str:
    """`value`, of what JSON knows, as text: several times as fast as the standard library."""
    return _ANYTHING.dump_json(value).decode()


def _utc(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _from_ms(value: object) -> object:
    """Milliseconds since 1970, as the store keeps them, or anything pydantic reads as a time."""
    return datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) else value


Text = Annotated[str, Field(max_length=1000), AfterValidator(_plain)]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain)]
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/=+-]*$")]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Owner = Name
Project = Annotated[
    str, Field(max_length=201, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")
]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="BLAKE3, 64 hexadecimal digits")]
Mib = Annotated[int, Field(ge=0, le=MAX_MIB)]
Arch = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[a-z0-9_]+$")]
Tier = Annotated[str, Field(pattern=r"^(process|namespace|microvm)$")]
Secret = Annotated[str, Field(min_length=8, max_length=200, pattern=r"^[A-Za-z0-9._~-]+$")]
Time = Annotated[
    datetime,
    BeforeValidator(_from_ms),
    PlainSerializer(_utc, return_type=str, when_used="json"),
    Field(description="RFC 3339, UTC"),
]

TIERS = ("process", "namespace", "microvm")
