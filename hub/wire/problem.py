"""An error as it travels: RFC 9457, `application/problem+json`."""

from pydantic import Field

from hub.wire.base import Answer

MEDIA_TYPE = "application/problem+json"


class Fault(Answer):
    """One fault in what was sent: where it is and what is wrong with it."""

    path: str = Field(description="where, as `jobs.build.needs[0]`; empty for the whole")
    text: str
    line: int | None = Field(default=None, description="line in the pipeline file, from 1")
    nearest: str | None = Field(default=None, description="the nearest word that would be valid")


class Problem(Answer):
    """What went wrong and what to do about it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="what to do about it")
    faults: list[Fault] = []
    offset: int | None = Field(default=None, description="for a gap in a log: the offset wanted")
