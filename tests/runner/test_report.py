"""The log: exact, in order, bounded, and where the hub says it is."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.wire.claim import LogOffset
from runner.client import Backoff
from runner.errors import Away, Over, TooLarge
from runner.report import Log
from runner.sandbox.base import Stop


class Far:
    """The other end: `answers` are raised or called before a piece is taken."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.pieces: list[tuple[int, int]] = []
        self.answers: list[Exception | Callable[[], None]] = []

    def __call__(self, offset: int, piece: bytes) -> LogOffset:
        self.pieces.append((offset, len(piece)))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            answer()
        if offset > len(self.kept):
            raise Over("a gap", offset=len(self.kept))
        self.kept.extend(piece[len(self.kept) - offset :])
        return LogOffset(offset=len(self.kept))


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def stop() -> Stop:
    return Stop()


@pytest.fixture
def log(far: Far, stop: Stop, tmp_path: Path) -> Log:
    return Log(tmp_path / "log", far, stop, Backoff(0.001, 0.01), give_up_s=1.0, limit_bytes=100_000)


def test_lines_of_ours_stand_on_lines_of_their_own(log: Log, far: Far) -> None:
    log.step(1, 2, "make\n all\x1b[0m")
    log.write(b"no newline")
    log.exit(0, 1.249)
    log.step(2, 2, "next")
    log.exit(-1, 0)
    assert log.close() == len(far.kept)
    assert bytes(far.kept).decode().splitlines() == [
        "##[step 1/2] make all\ufffd[0m",
        "no newline",
        "##[exit 0] 1.2 s",
        "##[step 2/2] next",
        "##[exit -1] 0.0 s",
    ]


def test_pieces_are_bounded(far: Far, stop: Stop, tmp_path: Path) -> None:
    log = Log(tmp_path / "log", far, stop, Backoff(0.001, 0.01), give_up_s=1.0)
    log.write(bytes(range(256)) * 4096)
    assert log.close() == 2**20
    assert bytes(far.kept) == bytes(range(256)) * 4096
    assert max(size for _, size in far.pieces) <= 2**18


def test_a_piece_whose_answer_was_lost_arrives_once(log: Log, far: Far) -> None:
    far.answers = [Away("cut"), lambda: far.kept.extend(b"hello"), Away("503")]
    log.write(b"hello")
    log.write(b" world")
    log.close()
    assert bytes(far.kept) == b"hello world"


def test_a_hub_that_has_less_or_more_than_thought_is_followed(log: Log, far: Far) -> None:
    far.answers = [Over("here", offset=0), Over("there", offset=10**9)]
    log.write(b"hello")
    log.close()
    log.rewind(0)
    assert log.close() == 5
    assert bytes(far.kept) == b"hello"


def test_a_hub_that_takes_nothing_is_given_up(log: Log, far: Far) -> None:
    far.answers = [Over("no", offset=0)] * 100_000
    log.write(b"hello")
    assert log.close() is None
    assert len(far.pieces) < 2000  # it waits between tries


def test_a_hub_that_stays_away_is_given_up(log: Log, far: Far) -> None:
    far.answers = [Away("no")] * 100_000
    log.write(b"hello")
    assert log.close() is None
    assert len(far.pieces) < 2000


def test_an_attempt_that_is_over_ends_the_log_and_the_job(log: Log, far: Far, stop: Stop) -> None:
    far.answers = [Over("the attempt is over")]
    log.write(b"hello")
    assert log.close() is None
    assert stop.reason == "over"


def test_a_cancel_told_with_a_piece_is_heard(stop: Stop, tmp_path: Path) -> None:
    log = Log(
        tmp_path / "log",
        lambda offset, piece: LogOffset(offset=offset + len(piece), cancel=True),
        stop,
        Backoff(0.001, 0.01),
        give_up_s=1.0,
    )
    log.write(b"x")
    assert log.close() == 1
    assert stop.reason == "canceled"


def test_a_full_log_of_the_hub_is_not_sent_on(log: Log, far: Far) -> None:
    far.answers = [TooLarge("1 MiB at most")]
    log.write(b"x")
    log.write(b"y")
    assert log.close() is None
    assert len(far.pieces) == 1


def test_output_beyond_the_bound_is_dropped_with_a_word_and_our_lines_go_on(log: Log, far: Far) -> None:
    log.write(b"x" * 99_999)
    log.write(b"yz")
    log.write(b"z" * 1000)
    log.exit(0, 1)
    log.close()
    text = bytes(far.kept).decode()
    assert text == (
        "x" * 99_999 + "y\nrunner: the output reached its bound of 100000 bytes; the rest is dropped\n"
        "##[exit 0] 1.0 s\n"
    )


def test_a_log_that_may_not_be_told_any_more_ends_at_once(log: Log, far: Far, stop: Stop) -> None:
    far.answers = [Away("no")] * 100_000
    log.write(b"x")
    threading.Timer(0.05, stop.ask, ("released",)).start()
    assert log.close() is None
    assert stop.reason == "released"


def test_the_spool_is_gone_with_the_log(log: Log, tmp_path: Path) -> None:
    log.write(b"x")
    assert (tmp_path / "log").read_bytes() == b"x"
    log.remove()
    assert not (tmp_path / "log").exists()
