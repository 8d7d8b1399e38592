"""Made-up views for the pages: one run in each state that matters, a fleet, a queue, a log.

The time is NOW_MS; nothing here reads a clock.
"""

from datetime import UTC, datetime
from typing import Any

from hub.store.queue_day import Bucket, Day
from hub.wire.claim import ImageRef, StepResult
from hub.wire.fleet import (
    HeldJob,
    KeptFor,
    LastAwaited,
    QueueView,
    RunnerList,
    RunnerView,
    Scope,
    TokenList,
    TokenView,
)
from hub.wire.images import ImageList, ImageView
from hub.wire.results import (
    Coverage,
    FailedTest,
    FlakyTest,
    PackageCoverage,
    ReportFile,
    Results,
    SlowTest,
    TestCounts,
)
from hub.wire.runs import (
    Artifact,
    ArtifactList,
    AttemptView,
    Comparison,
    Considered,
    JobView,
    Lack,
    Preview,
    PreviewJob,
    Remedy,
    RunnerLacks,
    RunView,
    Waiting,
)

NOW_MS = 1_796_092_500_000  # 1 December 2026, 02:35:00 UTC
IMAGE = "3f2a9c41d0be" + "0" * 52


def at(seconds_ago: float) -> datetime:
    """A time before now."""
    return datetime.fromtimestamp(NOW_MS / 1000 - seconds_ago, UTC)


def lack(code: str, text: str, *, lasting: bool, remedy: str) -> Lack:
    return Lack(code=code, text=text, lasting=lasting, remedy=Remedy(text=remedy, change={}))


def waiting_nowhere() -> Waiting:
    label = lack(
        "label",
        "lacks label gpu",
        lasting=True,
        remedy="add the label gpu to a runner, or drop it from the job",
    )
    slots = lack("slots", "runs 2 of 2 jobs", lasting=False, remedy="wait, or let it run 3 jobs")
    memory = lack(
        "memory",
        "has 1200 MiB free of 31757 MiB (2 jobs hold 16384 MiB); the job needs 8192 MiB",
        lasting=False,
        remedy="wait, or ask for at most 1200 MiB",
    )
    return Waiting(
        kind="nowhere",
        headline="no runner can take it: 3 runners, all lack label gpu",
        since=at(130),
        as_of=at(4),
        runners=[
            RunnerLacks(runner="earth-9", lacks=[label, slots]),
            RunnerLacks(runner="mars-1", lacks=[label]),
            RunnerLacks(runner="morpheus", lacks=[label, memory]),
        ],
        more=2,
    )


def job(**changes: Any) -> JobView:
    """A job that succeeded."""
    plain: dict[str, Any] = {
        "id": 170,
        "run": 42,
        "project": "andy/demo",
        "name": "lint",
        "status": "succeeded",
        "attempt": 1,
        "runner": "earth-9",
        "placed": "holds the image, idle, speed 100 (class 3)",
        "exit_code": 0,
        "queued_at": at(312),
        "started_at": at(310),
        "finished_at": at(296.6),
        "tier": "namespace",
        "arch": "x86_64",
        "labels": ["ssd"],
        "images": [ImageRef(name="debian-12", hash=IMAGE, bytes=831_520_768)],
        "memory_mib": 2048,
        "cpus": 2,
        "disk_mib": 5200,
        "timeout_s": 3600,
        "peak_memory_mib": 411,
        "peak_disk_mib": 96,
        "recent_memory_peak_mib": 430,
        "recent_disk_peak_mib": 96,
        "takes": "memory 411 MiB of 2 GiB (recent runs up to 430 MiB), "
        "disk 96 MiB of 5.1 GiB (recent runs up to 96 MiB)",
        "steps": ["ruff check", "mypy --strict"],
        "results": [
            StepResult(name="ruff check", exit_code=0, duration_s=1.24),
            StepResult(name="mypy --strict", exit_code=0, duration_s=11.8),
        ],
        "log_bytes": 4096,
        "attempts": [
            AttemptView(
                number=1,
                runner="earth-9",
                placed="holds the image, idle, speed 100 (class 3)",
                assigned_at=at(311),
                started_at=at(310),
                ended_at=at(296.6),
                ended="finished",
            )
        ],
    }
    return JobView.model_validate(plain | changes)


def jobs() -> list[JobView]:
    """Those of run 42: one done, one running, one failed, one that no runner can take, one blocked."""
    return [
        job(),
        job(
            id=171,
            name="test (python=3.12)",
            status="running",
            runner="architect",
            placed="fetches the image from the hub, running 2 other jobs, speed 80 (class 2),"
            " after 15 s held for a better runner",
            attempt=2,
            exit_code=None,
            queued_at=at(296),
            held_at=at(290),
            held_until=at(275),
            started_at=at(92),
            finished_at=None,
            needs=["lint"],
            steps=["pip install -e .[test]", "pytest -q", "coverage report"],
            step=1,
            results=[],
            attempts=[
                AttemptView(
                    number=1,
                    runner="mars-1",
                    assigned_at=at(200),
                    started_at=at(190),
                    ended_at=at(140),
                    ended="lost",
                    reason="it was not heard from for 60 s",
                ),
                AttemptView(number=2, runner="architect", assigned_at=at(94), started_at=at(92)),
            ],
        ),
        job(
            id=172,
            name="test (python=3.13)",
            status="failed",
            runner="tank",
            placed="holds the image, idle, speed 64 (class 1)",
            exit_code=1,
            error="step 2 ended with exit status 1",
            queued_at=at(296),
            started_at=at(280),
            finished_at=at(100),
            needs=["lint"],
            attempts=[
                AttemptView(
                    number=1,
                    runner="tank",
                    assigned_at=at(288),
                    started_at=at(280),
                    ended_at=at(100),
                    ended="finished",
                )
            ],
            results=[
                StepResult(name="ruff check", exit_code=0, duration_s=3.1),
                StepResult(name="mypy --strict", exit_code=1, duration_s=176),
            ],
        ),
        job(
            id=173,
            name="train",
            status="queued",
            attempt=0,
            runner=None,
            placed="",
            exit_code=None,
            queued_at=at(130),
            started_at=None,
            finished_at=None,
            needs=["lint"],
            labels=["gpu"],
            memory_mib=8192,
            results=[],
            attempts=[],
            peak_memory_mib=None,
            peak_disk_mib=None,
            takes="memory 8 GiB asked",
            log_bytes=0,
            waiting=waiting_nowhere(),
        ),
        job(
            id=174,
            name="deploy",
            status="blocked",
            attempt=0,
            runner=None,
            placed="",
            exit_code=None,
            queued_at=None,
            started_at=None,
            finished_at=None,
            needs=["test (python=3.12)", "train"],
            results=[],
            attempts=[],
            log_bytes=0,
            waiting=Waiting(kind="needs", headline="waits for test (python=3.12), train"),
        ),
    ]


def run(**changes: Any) -> RunView:
    """Run 42, under way."""
    plain: dict[str, Any] = {
        "id": 42,
        "project": "andy/demo",
        "status": "running",
        "title": "Teach the parser to keep comments",
        "ref": "refs/heads/main",
        "commit": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "submitted_by": "andy",
        "created_at": at(315),
        "jobs_total": 5,
        "jobs_done": 2,
        "jobs": jobs(),
    }
    return RunView.model_validate(plain | changes)


def run_list() -> list[RunView]:
    """A screen of runs in each status."""
    titles = [
        ("Teach the parser to keep comments", "running", None),
        ("Cut the claim path to one statement", "succeeded", 3500),
        ("Bump pydantic to 2.13", "failed", 7000),
        ("Nightly", "succeeded", 8000),
        ("Try the aarch64 builders", "canceled", 90_000),
        ("Release 0.4.0", "error", 200_000),
        (None, "queued", None),
    ]
    return [
        run(
            id=42 - index,
            title=title,
            status=status,
            created_at=at(315 + 4000 * index),
            finished_at=None if took is None else at(315 + 4000 * index - took / 40),
            jobs_done=2 if took is None else 5,
            jobs=[],
        )
        for index, (title, status, took) in enumerate(titles)
    ]


def comparison(job_id: int) -> Comparison:
    label = lack("label", "lacks label ssd", lasting=True, remedy="add the label ssd to mars-1")
    return Comparison(
        job=job_id,
        placed="holds the image, idle, speed 100 (class 3)",
        runner="earth-9",
        decided_at=at(311),
        margin="ahead of tank: speed class 3 against 1",
        waited="held 4 s for earth-9, which took it",
        wait_paid=True,
        runners=[
            Considered(
                runner="earth-9",
                holds_images=True,
                speed_class=3,
                free_slots=2,
                load1=0.41,
                waiting=True,
                chosen=True,
            ),
            Considered(
                runner="tank",
                holds_images=True,
                speed_class=1,
                free_slots=4,
                waiting=True,
                facts_age_s=2.4,
                margin="ahead of tank: speed class 3 against 1",
            ),
            Considered(runner="mars-1", holds_images=False, lacks=[label]),
        ],
        more=1,
    )


def artifacts() -> ArtifactList:
    return ArtifactList(
        artifacts=[
            Artifact(path="dist/demo-0.4.0-py3-none-any.whl", bytes=48_213, hash="a" * 64),
            Artifact(path="reports/junit.xml", bytes=1_310_720, hash="b" * 64),
        ]
    )


def runner(**changes: Any) -> RunnerView:
    """A runner that runs one job and waits for another."""
    plain: dict[str, Any] = {
        "name": "earth-9",
        "state": "active",
        "waiting": True,
        "heard_at": at(3),
        "heard_s_ago": 3.0,
        "labels": ["ssd", "nested-virt"],
        "arch": "x86_64",
        "tiers": ["namespace", "microvm"],
        "images": [IMAGE, "b" * 64],
        "fetches_images": True,
        "max_jobs": 2,
        "free_slots": 1,
        "cpus": 8,
        "free_cpus": 6,
        "memory_mib": 31757,
        "memory_used_mib": 6314,
        "memory_committed_mib": 8192,
        "free_memory_mib": 15_155,
        "reserve_mib": 4096,
        "free_disk_mib": 50_000,
        "speed": 100,
        "speed_class": 3,
        "load1": 0.414,
        "kernel": "6.1.0",
        "os": "Debian 12",
        "cpu": "AMD EPYC 7763",
        "jobs": [
            HeldJob(job=171, run=42, name="test (python=3.12)", state="running", memory_mib=8192, cpus=2)
        ],
    }
    return RunnerView.model_validate(plain | changes)


def fleet() -> RunnerList:
    """One of each kind: busy, silent, draining, quarantined, and one that never polled."""
    bare = RunnerView(name="zion-new", state="active", waiting=False)
    return RunnerList(
        runners=[
            runner(
                name="architect",
                waiting=False,
                free_slots=0,
                jobs=[],
                labels=[],
                awaited_by=[173],
                last_awaited=LastAwaited(job=170, at=at(40), took=False),
                broken_promises=1,
            ),
            runner(),
            runner(
                name="mars-1",
                silent=True,
                waiting=False,
                heard_at=at(420),
                arch="aarch64",
                scope=Scope(owner="andy"),
                kept_for=KeptFor(job=173, queued_at=at(130)),
                jobs=[],
                free_slots=2,
                memory_committed_mib=0,
            ),
            runner(
                name="morpheus", state="draining", waiting=False, scope=Scope(project="andy/demo"), jobs=[]
            ),
            runner(
                name="tank",
                state="quarantined",
                state_reason="it declined 5 jobs in a row: no space left for the image",
                instances=["10.0.0.4", "10.0.0.9"],
                jobs=[],
            ),
            bare,
        ]
    )


def queue() -> QueueView:
    busy = Waiting(kind="busy", headline="waits for room: earth-9 runs 2 of 2 jobs")
    held = Waiting(kind="held", headline="held for earth-9 (holds the image), 11 s left")
    return QueueView(
        jobs=[
            job(id=160, run=41, name="build", status="queued", queued_at=at(700), waiting=busy),
            job(id=161, run=41, name="docs", status="queued", queued_at=at(22), waiting=held),
            jobs()[3],
        ],
        more=7,
    )


def results() -> Results:
    return Results(
        job=172,
        attempt=1,
        tests=TestCounts(total=214, failed=2, errors=1, skipped=3, duration_s=41.2),
        failures=[
            FailedTest(
                name="tests.test_parser::test_keeps_comments",
                outcome="failed",
                message="assert [] == ['b']",
                output="    def test_keeps_comments():\n>       assert parse('a').comments == []\nE  ...",
                duration_s=0.02,
            ),
            FailedTest(name="tests.test_api::test_times_out", outcome="error", message="ConnectionError"),
        ],
        more_failures=1,
        slowest=[SlowTest(name="tests.test_api::test_all_pages", duration_s=12.3)],
        flaky=[
            FlakyTest(name="tests.test_api::test_times_out", why="passed and failed on commit 9f86d081884c")
        ],
        coverage=Coverage(
            rate=0.874,
            lines=1000,
            covered=874,
            packages=[
                PackageCoverage(name="demo.parser", lines=400, covered=300),
                PackageCoverage(name="demo", lines=600, covered=574),
            ],
        ),
        files=[
            ReportFile(path="old.xml", kind="junit", fault="it is not XML: syntax error: line 1, column 0"),
            ReportFile(path="report.xml", kind="junit", notes=["15 tests beyond the first 10 were not read"]),
        ],
    )


def images() -> ImageList:
    plain: dict[str, Any] = {
        "arch": "x86_64",
        "cutter": "fastcdc2020-64k",
        "chunks": 9,
        "created_at": at(90_000),
    }
    return ImageList(
        images=[
            ImageView(
                hash=IMAGE,
                bytes=831_520_768,
                names=["debian-12", "base"],
                stored_bytes=311_000_000,
                shared_bytes=700_000_000,
                held_by=["earth-9", "tank"],
                held_by_others=2,
                used_at=at(300),
                **plain,
            ),
            ImageView(hash="b" * 64, bytes=10_240, owner="andy/demo", damaged=3, **plain),
        ],
        more=4,
    )


def preview() -> Preview:
    label = lack("label", "lacks label ssd", lasting=True, remedy="add the label ssd to mars-1")
    return Preview(
        jobs=[
            PreviewJob(
                name="lint",
                runner="earth-9",
                placed="needs no image, idle",
                runners=[RunnerLacks(runner="mars-1", lacks=[label])],
            ),
            PreviewJob(name="train", waiting=waiting_nowhere()),
        ]
    )


def tokens() -> TokenList:
    return TokenList(
        tokens=[
            TokenView(
                id=1, name="first admin", kind="admin", scope=Scope(), created_at=at(9e5), used_at=at(3)
            ),
            TokenView(
                id=2,
                name="ci of the demo",
                kind="submit",
                scope=Scope(project="andy/demo"),
                created_at=at(5e5),
                expires_at=at(-9e5),
            ),
        ]
    )


def day() -> Day:
    """A day with one busy morning."""
    start_ms = NOW_MS // 900_000 * 900_000 - 95 * 900_000
    buckets = [
        Bucket(
            start_ms=start_ms + at * 900_000,
            waiting=max(0, 12 - abs(40 - at)),
            taken=4 if 30 < at < 52 else 0,
            mean_ms=1000 * (at - 30) if 30 < at < 52 else None,
            most_ms=4000 * (at - 30) if 30 < at < 52 else None,
        )
        for at in range(96)
    ]
    return Day(as_of_ms=NOW_MS, bucket_ms=900_000, buckets=tuple(buckets))


LOG = (
    b"##[step 1/3] pip install -e .[test]\n"
    b"Looking in indexes: https://pypi.org/simple\n"
    b"Collecting pydantic>=2.9\n"
    b"\x1b[2K   \x1b[38;5;70m\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\x1b[0m 2.1/4.2 MB\r"
    b"\x1b[2K   \x1b[38;5;70m\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81"
    b"\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\xe2\x94\x81\x1b[0m 4.2/4.2 MB\r\n"
    b"Successfully installed demo-0.4.0 pydantic-2.13.0\n"
    b"##[exit 0] 8.4 s\n"
    b"##[step 2/3] pytest -q\n"
    b"\x1b[1m============================= test session starts ==============================\x1b[0m\n"
    b"collected 214 items\n\n"
    b"tests/test_parser.py \x1b[32m.\x1b[0m\x1b[32m.\x1b[0m\x1b[31mF\x1b[0m\x1b[33ms\x1b[0m"
    b"                                      \x1b[31m[ 12%]\x1b[0m\n\n"
    b"    def test_keeps_comments():\n"
    b'>       \x1b[94massert\x1b[39;49;00m parse(\x1b[33m"a # b"\x1b[39;49;00m)'
    b'.comments == [\x1b[33m"b"\x1b[39;49;00m]\n'
    b"\x1b[1m\x1b[31mE       assert [] == ['b']\x1b[0m\n"
    b"\x1b[1m\x1b[31mE         Right contains one more item: 'b'\x1b[0m\n"
    b"\x1b[7m inverse \x1b[0m \x1b[30;42m PASS \x1b[0m \x1b[97;41m FAIL \x1b[0m"
    b" \x1b[2mdim\x1b[0m \x1b[4;9mboth\x1b[0m\n"
    b"<script>alert(1)</script> &amp; \xe2\x80\xaereversed\n"
)

# What lines are made of, to try two renderers on: text, whole escapes and parts of them.
FRAGMENTS_OF_LINES = [
    "a", "é", "𝄞", "<b>", "\t", "\r", "\x07", "\x00", "\x9b31m", "\x1b", "\x1b[", "\x1b[3", "\x1b[31m",
    "\x1b[m", "\x1b[1;4;97;104m", "\x1b[38;5;196m", "\x1b[38;2;1;2;3m", "\x1b[48:2::255:0:0m", "\x1b[4:0m",
    "\x1b[38;5m", "\x1b[2K", "\x1b[?25l", "\x1b]8;;http://x\x1b\\", "\x1b]0;title\x07", "\x1bP", "\x1b(B",
    "\u202e", "\u2066", "\x1b[999999m", "\x1b[>4m", "\x1b[22;39m", "\x1b[7m", "\x1b[0;1", ";31m",
    "\x1b\x1b[32m",
]  # fmt: skip
