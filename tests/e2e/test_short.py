"""A job that fills the disk of one real runner ends well on another, and every view says why it is there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import House, until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder for a runner to work in, on a file system of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    place = tmp_path / "mars-1"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"needs a machine that lets root mount: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_job_that_fills_one_disk_goes_to_a_larger_one_and_says_so(tmp_path: Path, small_disk: Path) -> None:
    with House(tmp_path) as house:
        house.start_runner(small_disk.name, "--speed", "100")
        fill = {"steps": ["head -c 100000000 /dev/zero > big"], "retries": 1}
        run = house.submit({"jobs": {"fill": fill}})

        def waits() -> str | None:
            job = house.run(run)["jobs"][0]
            return job["waiting"]["headline"] if job["attempt"] and job["waiting"] else None

        headline = until("it waits for more room", waits)
        found = re.fullmatch(
            r"waits for room: mars-1 has \d+ MiB free; "
            r"the job needs ~(\d+) MiB \(it ran out of (\d+) MiB on mars-1\)",
            headline,
        )
        assert found, headline
        asks, had = map(int, found.groups())
        assert 40 <= had <= 64
        assert asks == had + -(-had // 4) + 64
        house.start_runner("tank", "--speed", "100")
        view = house.ended(run)
        (job,) = view["jobs"]
        assert (view["status"], job["runner"], job["attempt"]) == ("succeeded", "tank", 2)
        sentence = f"asking ~{asks} MiB of disk, as it ran out at {had} MiB on mars-1"
        assert job["placed"].endswith(f", {sentence}")
        assert f"ran out of disk at {had} MiB on mars-1" in job["attempts"][0]["reason"]
        assert re.search(r"\bdisk 9\d of \d+ MiB \(recent runs up to 9\d MiB\)$", job["takes"])
        command = [sys.executable, "-m", "hub.cli.main", "run", "view", str(run)]
        command += ["--hub", house.url, "--token", house.token]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        assert f"  placed: {job['placed']}\n" in shown
        assert f"  takes: {job['takes']}\n" in shown
