"""The pages over made-up views, for the tests of this folder."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.web.serving import Answers, application, client


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def browser(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who is signed in."""
    async with client(application(answers, monkeypatch)) as signed_in:
        yield signed_in


@pytest.fixture
async def stranger(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who is not."""
    async with client(application(answers, monkeypatch), signed_in=False) as nobody:
        yield nobody
