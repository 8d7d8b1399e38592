"""The hub's client: what each answer means, and how it waits."""

import pytest

from hub.wire.claim import Claim, GiveBack
from runner.client import Backoff, Hub, persist
from runner.errors import Aborted, Away, HubError, Locked, Missing, Over, Refused, TooLarge
from runner.sandbox.base import Stop
from tests.runner.fakehub import TOKEN, Answer, FakeHub, problem


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused), (401, Locked), (403, Locked), (404, Missing), (409, Over), (413, TooLarge),
        (422, Refused), (302, Refused), (408, Away), (429, Away), (500, Away), (502, Away), (503, Away),
        (504, Away), (507, Away),
    ],
)  # fmt: skip
def test_an_answer_means_one_thing(hub: FakeHub, status: int, kind: type[HubError]) -> None:
    hub.instead("/decline", problem(status, "the sentence", faults=[{"path": "a.b", "text": "is wrong"}]))
    with pytest.raises(kind, match=r"the sentence; a\.b is wrong") as caught:
        Hub(hub.url, TOKEN).decline(1, GiveBack(lease="a-lease-here"))
    assert type(caught.value) is kind


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'"text"', b'{"detail": 5, "offset": -1}', b"\xff"])
def test_an_error_that_is_no_problem_document_still_is_its_status(hub: FakeHub, body: bytes) -> None:
    hub.instead("/decline", Answer(409, body))
    with pytest.raises(Over) as caught:
        Hub(hub.url, TOKEN).decline(1, GiveBack(lease="a-lease-here"))
    assert caught.value.offset is None
    assert caught.value.detail


def test_words_of_the_hub_cannot_forge_the_log(hub: FakeHub) -> None:
    hub.instead("/decline", problem(409, "evil\x1b[31m"))
    with pytest.raises(Over) as caught:
        Hub(hub.url, TOKEN).decline(1, GiveBack(lease="a-lease-here"))
    assert "\x1b" not in caught.value.detail


def test_a_hub_below_a_path_is_reached_there(hub: FakeHub) -> None:
    with pytest.raises((Away, Missing, Refused, Over)):
        Hub(hub.url + "/ci/", TOKEN).decline(1, GiveBack(lease="a-lease-here"))
    assert hub.calls[0].path == "/ci/api/v1/jobs/1/decline"


def test_a_poll_given_up_before_it_is_asked_is_not_sent(hub: FakeHub) -> None:
    poll = Hub(hub.url, TOKEN).poll(Claim(tiers=["process"], wait_s=0))
    poll.abort()
    with pytest.raises(Aborted):
        poll.ask()
    assert hub.calls == []


def test_waits_double_with_jitter_up_to_a_bound() -> None:
    backoff = Backoff(1.0, 30.0)
    waits = [backoff.failed() for _ in range(10)]
    steps = [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]
    assert all(step / 2 <= wait <= step for wait, step in zip(waits, steps, strict=True)), waits
    assert len({wait / step for wait, step in zip(waits, steps, strict=True)}) > 1
    backoff.reset()
    assert backoff.failed() <= 1.0


def test_a_call_is_repeated_only_while_the_hub_is_away() -> None:
    answers: list[HubError | None] = [Away("a"), Away("b"), Over("over")]

    def call() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    with pytest.raises(Over):
        persist(call, Stop(), Backoff(0.001, 0.002), until="released", give_up_s=10)
    assert answers == []


def test_a_call_is_given_up_after_its_bound_and_when_told() -> None:
    tries = []

    def call() -> None:
        tries.append(1)
        raise Away("no")

    with pytest.raises(Away):
        persist(call, Stop(), Backoff(0.01, 0.01), until="released", give_up_s=0.1)
    assert 5 <= len(tries) <= 25
    stop = Stop()
    stop.ask("canceled")
    with pytest.raises(Aborted):
        persist(call, stop, Backoff(0.01, 0.01), until="canceled", give_up_s=10)
    stop.ask("timed_out")
    assert stop.reason == "canceled"
