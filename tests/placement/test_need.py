"""What recent runs teach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.placement.need import SPARE_MIB, DiskNeed, disk_need, peak_of, takes_phrase, usual_ms


@pytest.mark.parametrize(
    ("peaks", "asked", "need", "peak"),
    [
        ([4096, 2000, 3000], None, 5184, 4096),
        ([], 700, 700, None),
        ([], None, None, None),
        ([None, None], 700, 700, None),
        ([None, 100], 700, 189, 100),
        ([1], 5000, 66, 1),
        ([10, 10, 10, 10, 10, 9000], None, 77, 10),
    ],
)
def test_disk_is_the_recent_peak_and_a_quarter_and_64_mib(
    peaks: list[int | None], asked: int | None, need: int | None, peak: int | None
) -> None:
    assert disk_need(peaks, asked) == DiskNeed(disk_mib=need, disk_peak_mib=peak)


@pytest.mark.parametrize(
    ("durations", "usual"),
    [([], None), ([7000], 7000), ([1000, 2000], 1500), ([5, 1, 9, 3, 7, 100, 100, 100], 5)],
)
def test_the_usual_duration_is_the_median_of_the_last_five(durations: list[int], usual: int | None) -> None:
    assert usual_ms(durations) == usual


@pytest.mark.parametrize(
    ("peak", "ran_out", "counts"),
    [(None, None, None), (100, None, 100), (None, 4000, 4000), (100, 4000, 4000), (5000, 4000, 5000)],
)
def test_a_run_that_ran_out_counts_as_having_taken_at_least_that(
    peak: int | None, ran_out: int | None, counts: int | None
) -> None:
    assert peak_of(peak, ran_out) == counts


@given(st.lists(st.integers(0, 1 << 20), max_size=4), st.integers(0, 1 << 20), st.integers(0, 4))
def test_what_one_of_the_last_five_ran_out_of_is_never_thought_enough(
    peaks: list[int], ran_out_mib: int, place: int
) -> None:
    peaks.insert(place, ran_out_mib)
    need = disk_need(peaks, None).disk_mib
    assert need is not None
    assert need >= ran_out_mib + ran_out_mib / 4 + SPARE_MIB


@pytest.mark.parametrize(
    ("used", "asked", "recent", "phrase"),
    [
        (1229, 2048, 1434, "memory 1.2 of 2 GiB (recent runs up to 1.4 GiB)"),
        (1229, 2048, None, "memory 1.2 of 2 GiB"),
        (411, 512, None, "memory 411 of 512 MiB"),
        (411, 2048, 500, "memory 411 MiB of 2 GiB (recent runs up to 500 MiB)"),
        (2047, 2050, None, "memory 2047 of 2050 MiB"),
        (2048, 2048, None, "memory 2 of 2 GiB"),
        (3000, 512, None, "memory 2.9 GiB of 512 MiB"),
        (1229, None, None, "memory 1.2 GiB"),
        (None, 2048, 1434, "memory 2 GiB asked (recent runs up to 1.4 GiB)"),
        (None, None, 2048, "memory (recent runs up to 2 GiB)"),
        (0, 0, 0, "memory 0 of 0 MiB (recent runs up to 0 MiB)"),
        (None, None, None, ""),
    ],
)
def test_what_a_job_takes_is_said_with_what_is_known(
    used: int | None, asked: int | None, recent: int | None, phrase: str
) -> None:
    assert takes_phrase("memory", used, asked, recent) == phrase
