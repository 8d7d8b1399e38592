import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.show import comparison_lines, duration, job_sentences, mib, spent_s, table, until_s
from hub.cli.terminal import Paint

PLAIN = Paint(False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (75, "1 min 15 s"),
        (3599.7, "1 h"),
        (3660, "1 h 1 min"),
        (86399.9, "1 d"),
        (90000, "1 d 1 h"),
        (86400 * 400, "400 d"),
    ],
)
def test_a_duration_has_two_figures_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_was_not_reported_is_not_nothing() -> None:
    assert [mib(amount) for amount in (None, 0, 10239, 10240)] == ["-", "0 MiB", "10239 MiB", "10.0 GiB"]


def test_a_clock_that_is_behind_the_hubs_shows_no_negative_time() -> None:
    assert spent_s("2026-05-01T12:00:00.000Z", None, 0) == 0.0
    assert spent_s(None, None, 0) is None
    assert until_s("1970-01-01T00:01:00Z", 90_000) == -30.0


CELLS = st.tuples(st.just(""), st.text(st.characters(categories=["L", "N"]), max_size=80))


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_table_holds_every_text_whole_and_in_order(rows: list[list[tuple[str, str]]]) -> None:
    for row, line in zip(rows, table(rows, PLAIN), strict=True):
        assert line.split() == [text for _, text in row if text]


def test_columns_are_aligned_and_an_overlong_name_moves_only_its_own_row() -> None:
    rows = [[("", "a"), ("", "1")], [("", "bbb"), ("", "2")], [("", "x" * 99), ("", "3")]]
    assert table(rows, PLAIN) == ["a    1", "bbb  2", "x" * 99 + "  3"]


def test_colours_do_not_move_columns() -> None:
    rows = [[("good", "a"), ("", "1")], [("", "bbb"), ("", "2")]]
    assert table(rows, Paint(True))[0] == "\x1b[32ma\x1b[0m    1"


def test_a_job_that_needs_no_image_tells_nothing_of_images() -> None:
    comparison = {"runners": [{"runner": "fast", "chosen": True, "holds_images": True, "speed_class": 3}]}
    assert comparison_lines(comparison, PLAIN, of_images=False) == ["    ✓ fast took it (class 3)"]
    assert comparison_lines(comparison, PLAIN, of_images=True) == [
        "    ✓ fast took it (images held, class 3)"
    ]


def test_what_a_job_takes_stands_beside_why_it_runs_where_it_runs() -> None:
    job = {
        "name": "train",
        "status": "running",
        "placed": "idle, asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1",
        "takes": "memory 1.2 of 3 GiB (recent runs up to 1.4 GiB)",
    }
    assert job_sentences(job, PLAIN) == [
        "  placed: idle, asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1",
        "  takes: memory 1.2 of 3 GiB (recent runs up to 1.4 GiB)",
    ]


def test_a_job_that_waits_for_good_is_told_the_least_that_would_mend_it() -> None:
    waiting = {
        "kind": "nowhere",
        "headline": "no runner can take it: 1 runner, it lacks label gpu",
        "mend": [{"text": "add the label gpu to earth-9", "change": {}}],
    }
    lines = job_sentences({"name": "train", "status": "queued", "waiting": waiting}, PLAIN)
    assert lines[-1] == "    mend: add the label gpu to earth-9"
