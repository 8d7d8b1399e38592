"""What recent runs teach."""

import pytest

from hub.placement.need import DiskNeed, disk_need, usual_ms


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
