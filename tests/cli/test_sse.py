import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli import sse
from hub.cli.sse import Event, EventTooLarge, Parser

STREAM = (
    b": a comment\r\n\r\n"
    b"id: 1:20\revent: log\rdata: first\rdata:second\r\r"
    b"data: {}\n\n"
    b"event: end\n\n"
    b"id: 9\ndata: cut off"
)
EVENTS = [
    Event(name="log", data="first\nsecond", id="1:20"),
    Event(name="message", data="{}", id="1:20"),
    Event(name="end", data="", id="1:20"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(STREAM)]
    parser, found, begin = Parser(), [], 0
    for end in ends:
        found += list(parser.feed(STREAM[begin:end]))
        begin = end
    assert found == EVENTS


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    parser = Parser()
    for _ in range(6):
        assert list(parser.feed(b"data: 0123456789\n")) == []
    with pytest.raises(EventTooLarge):
        list(parser.feed(b"data: " + b"x" * 40))
