"""`shunter admin check`: what it prints, and that it fails while anything is damaged."""

import json

from hub.wire.images import CheckProgress, CheckReport, DamagedChunk
from tests.cli.conftest import Shunter
from tests.cli.fakehub import FakeHub, stream

FIRST, SECOND = "a" * 64, "b" * 64
END = ("end", "{}")


def _progress(packs: int, bytes_: int) -> tuple[str, str]:
    far = CheckProgress(packs=packs, of_packs=2, bytes=bytes_, of_bytes=2_000_000)
    return ("progress", far.model_dump_json())


def _report(**more: object) -> tuple[str, str]:
    found = {"chunks": 5, "bytes": 2_000_000, "images": 1, "sound": True, **more}
    return ("report", CheckReport.model_validate(found).model_dump_json())


DAMAGE = {
    "sound": False,
    "damaged_chunks": [DamagedChunk(hash=SECOND, reason="not a zstd frame", images=[FIRST])],
    "damaged_images": [FIRST],
}


def test_a_sound_store_is_told_and_exits_with_0(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/images/check", stream(_progress(1, 1_000_000), _progress(2, 2_000_000), _report(), END))
    done = shunter("admin", "check")
    assert (done.status, done.out) == (0, "5 chunks of 1 images read, 2.0 MB\neverything is sound\n")
    assert "checking" in done.err


def test_a_store_without_images_is_sound(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/images/check", stream(_report(chunks=0, bytes=0, images=0), END))
    assert shunter("admin", "check").status == 0


def test_damage_is_told_and_exits_with_1(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/images/check", stream(_progress(1, 1_000_000), _report(**DAMAGE, orphan_packs=3), END))
    done = shunter("admin", "check")
    assert done.status == 1
    assert done.out.splitlines()[1:] == [
        "3 files belong to nothing: shunter image gc removes them",
        f"chunk {'b' * 12} of {'a' * 12}: not a zstd frame",
        f"image {FIRST} is damaged: push it again",
    ]


def test_the_json_is_the_hubs_report_and_exits_with_1_too(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/images/check", stream(_report(**DAMAGE), END))
    done = shunter("admin", "check", "--json")
    assert (done.status, json.loads(done.out)["damaged_images"]) == (1, [FIRST])


def test_a_check_that_did_not_come_to_its_end_is_a_failure(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/images/check", stream(_progress(1, 1_000_000), END))
    done = shunter("admin", "check")
    assert (done.status, "before it was done" in done.err) == (1, True)


def test_a_hub_that_is_older_is_told_so(shunter: Shunter, fake: FakeHub) -> None:
    done = shunter("admin", "check")
    assert (done.status, "older" in done.err) == (1, True)


def test_a_check_goes_on_when_the_line_breaks(shunter: Shunter, fake: FakeHub) -> None:
    first = stream(_progress(1, 1_000_000), cut=True)
    fake.on("GET", "/images/check", first, stream(_progress(1, 1_000_000), _report(), END))
    assert shunter("admin", "check").status == 0
