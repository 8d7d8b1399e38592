"""The journal of decisions, for whoever may know all of the hub.

It names every project's jobs and every runner, so that it takes an admin token for all projects. It is
written line by line, a little at a time: the loop has claims to answer in the meantime, and what is
written is the journal as it was when it was asked for.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

from hub.placement.journal import lines
from hub.service.access import Principal, authorise
from hub.service.hub import Hub

PIECE_LINES = 16  # some 16 KiB and a millisecond of the loop's time


def journal(hub: Hub, principal: Principal) -> AsyncIterator[bytes]:
    """The lines of a journal file (`placement.journal`), in pieces. Raises before the first one."""
    authorise(principal, "admin")
    text = lines(hub.dispatch.journal.value())

    async def pieces() -> AsyncIterator[bytes]:
        while piece := list(islice(text, PIECE_LINES)):
            yield "".join(f"{line}\n" for line in piece).encode()
            await asyncio.sleep(0)  # a fast reader would not make it yield

    return pieces()
