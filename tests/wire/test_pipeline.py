"""The pipeline file, as people write it: what it becomes, and what they are told."""

from textwrap import dedent

import pytest

from hub.wire.pipeline import MAX_FAULTS, PipelineError, parse
from hub.wire.problem import Fault
from hub.wire.spec import DEFAULT_TIMEOUT_S, JobSpec

CONTRACT = """\
version: 1
sandboxes:
  debian: {image: debian-12, tier: namespace, arch: x86_64, memory: 2GiB, cpus: 2, disk: 4GiB}
  verifier: {image: verifier, memory: 3GiB}
jobs:
  lint:
    steps: [ruff check]
  build:
    sandbox: debian
    labels: [ssd]
    needs: [lint]
    env: {CFLAGS: -O2}
    steps:
      - run: make
      - run: ./verify
        sandbox: verifier        # a second image: the runner must have both
    artifacts: [dist/**]
    reports: {junit: [report.xml], coverage: [coverage.xml]}
    timeout: 30m
    retries: 1                   # after a failure of the machinery, not of the job
    matrix: {python: ["3.11", "3.12"]}
    concurrency: {group: deploy-prod, limit: 1, cancel_running: false}
    keep: on-failure             # park the sandbox for a person to look into
"""


def jobs(text: str) -> dict[str, JobSpec]:
    return {job.name: job for job in parse(dedent(text)).jobs}


def job(body: str, top: str = "") -> JobSpec:
    """The only job of a file whose job `a` has `body` beside one step."""
    (only,) = parse(f"version: 1\n{dedent(top)}\njobs:\n  a: {{steps: [x], {body}}}\n").jobs
    return only


def faults(text: str) -> list[Fault]:
    with pytest.raises(PipelineError) as caught:
        parse(dedent(text))
    return caught.value.faults


def job_fault(body: str, top: str = "") -> Fault:
    """The only fault of a file whose job `a` has `body` beside one step."""
    (only,) = faults(f"version: 1\n{dedent(top)}\njobs:\n  a: {{steps: [x], {body}}}\n")
    return only


def test_the_file_of_the_contract_is_read_as_it_is_meant() -> None:
    lint, first, second = parse(CONTRACT).jobs

    assert (lint.name, lint.tier, lint.images) == ("lint", "process", [])
    assert (first.name, second.name) == ("build-3.11", "build-3.12")
    assert first.model_dump(exclude_unset=True) == {
        "name": "build-3.11",
        "tier": "namespace",
        "arch": "x86_64",
        "network": None,
        "images": [{"name": "debian-12", "hash": ""}, {"name": "verifier", "hash": ""}],
        "labels": ["ssd"],
        "needs": ["lint"],
        "env": {"MATRIX_PYTHON": "3.11", "CFLAGS": "-O2"},
        "steps": [
            {"name": "make", "run": "make", "image": None, "env": {}},
            {"name": "./verify", "run": "./verify", "image": "verifier", "env": {}},
        ],
        "artifacts": ["dist/**"],
        "reports": {"junit": ["report.xml"], "coverage": ["coverage.xml"]},
        "timeout_s": 1800,
        "retries": 1,
        "memory_mib": 3072,
        "cpus": 2,
        "disk_mib": 4096,
        "concurrency": {"group": "deploy-prod", "limit": 1, "cancel_running": False},
        "keep": "on-failure",
    }


def test_a_job_that_asks_for_nothing_runs_as_a_process_with_nothing_asked() -> None:
    plain = job("")
    assert (plain.tier, plain.arch, plain.memory_mib, plain.cpus) == ("process", None, None, None)
    assert (plain.disk_mib, plain.network, plain.keep) == (None, None, None)
    assert (plain.timeout_s, plain.retries) == (DEFAULT_TIMEOUT_S, 0)


def test_a_job_that_names_an_image_runs_in_a_namespace_unless_it_says_otherwise() -> None:
    assert job("image: debian-12").tier == "namespace"
    assert job("image: debian-12, tier: microvm").tier == "microvm"


def test_keys_beside_a_sandbox_replace_its_own() -> None:
    made = job("sandbox: s, memory: 4GiB", "sandboxes: {s: {image: i, memory: 1GiB, cpus: 3}}")
    assert (made.memory_mib, made.cpus) == (4096, 3)


def test_an_image_by_its_hash_needs_no_name() -> None:
    digest = "ab" * 32
    made = job(f"image: cas://blake3/{digest}")
    assert [(image.name, image.hash) for image in made.images] == [(None, digest)]


def test_a_step_is_named_after_the_first_line_of_its_command() -> None:
    text = "version: 1\njobs:\n  a:\n    steps:\n      - |\n        \n        make all\n        make test\n"
    assert parse(text).jobs[0].steps[0].name == "make all"


@pytest.mark.parametrize(
    ("written", "mib"),
    [("1MiB", 1), ("512MiB", 512), ("2GiB", 2048), ("1TiB", 2**20), ("999999999999MiB", 999_999_999_999)],
)
def test_a_size_is_read_in_its_unit(written: str, mib: int) -> None:
    assert job(f"memory: {written}").memory_mib == mib
    assert job(f"disk: {written}").disk_mib == mib


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("2048", "2048MiB"),
        ("2G", "2GiB"),
        ("2 gb", "2GiB"),
        ("1.5GiB", None),
        ("0MiB", None),
        ("2GiBs", None),
    ],
)
def test_a_size_without_its_unit_is_refused_with_what_was_meant(written: str, nearest: str | None) -> None:
    fault = job_fault(f"memory: {written}")
    assert fault.path == "jobs.a.memory"
    assert "512MiB, 2GiB or 1TiB" in fault.text
    assert fault.nearest == nearest


@pytest.mark.parametrize(
    ("written", "seconds"), [("30s", 30), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("168h", 604_800)]
)
def test_a_duration_is_read_in_its_units(written: str, seconds: int) -> None:
    assert job(f"timeout: {written}").timeout_s == seconds


@pytest.mark.parametrize("written", ["0s", "169h", "90", "1:30", "30m1h", "-5m", "soon", "''"])
def test_a_duration_that_is_none_or_out_of_bounds_is_refused(written: str) -> None:
    assert job_fault(f"timeout: {written}").path == "jobs.a.timeout"


def test_the_file_gives_defaults_for_env_and_timeout_that_a_job_replaces() -> None:
    top = "env: {A: 1, B: 2}\ntimeout: 5m"
    assert job("", top).timeout_s == 300
    assert job("timeout: 1h", top).timeout_s == 3600
    assert job("env: {B: 3}", top).env == {"A": "1", "B": "3"}


def test_plain_words_keep_their_spelling() -> None:
    made = job("env: {A: 3.10, B: yes, C: 0x1F, D: 1_000, E: 1e3, F: true, G: 010, H: 2026-01-02, I: '5'}")
    assert list(made.env.values()) == [
        "3.10",
        "yes",
        "0x1F",
        "1_000",
        "1e3",
        "true",
        "010",
        "2026-01-02",
        "5",
    ]


def test_a_need_of_a_matrix_job_means_all_of_its_jobs_and_one_can_be_named() -> None:
    made = jobs(
        """\
        version: 1
        jobs:
          test: {matrix: {v: [1, 2]}, steps: [x]}
          all: {needs: [test, test-2], steps: [x]}
          one: {needs: [test-2], steps: [x]}
          same: {needs: ["test-${{ matrix.v }}"], matrix: {v: [1, 2]}, steps: [x]}
        """
    )
    assert made["all"].needs == ["test-1", "test-2"]
    assert made["one"].needs == ["test-2"]
    assert made["same-1"].needs == ["test-1"]


def test_every_fault_is_told_with_line_path_and_nearest_word() -> None:
    found = faults(
        """\
        version: 2
        sandboxes:
          debian: {image: debian-12, memry: 2GiB, tier: microvn}
        jobs:
          build:
            sandbox: debain
            needs: [lnt]
            steps: [make]
          lint:
            step: [x]
            retries: 11
        """
    )
    assert [(fault.line, fault.path, fault.nearest) for fault in found] == [
        (1, "version", "1"),
        (3, "sandboxes.debian.memry", "memory"),
        (3, "sandboxes.debian.tier", "microvm"),
        (6, "jobs.build.sandbox", "debian"),
        (7, "jobs.build.needs[0]", "lint"),
        (10, "jobs.lint", None),
        (10, "jobs.lint.step", "steps"),
        (11, "jobs.lint.retries", None),
    ]


def test_an_unknown_key_that_is_near_to_none_is_told_the_keys_there_are() -> None:
    fault = job_fault("keep: never, zzz: 1")
    assert fault.nearest is None
    assert fault.text.startswith("unknown key `zzz`; the keys here are sandbox, image, tier,")


def test_a_circle_is_told_as_the_way_around() -> None:
    found = faults(
        """\
        version: 1
        jobs:
          a: {needs: [b], steps: [x]}
          b: {needs: [c], steps: [x]}
          c: {needs: [a], steps: [x]}
          d: {needs: [a, d], steps: [x]}
        """
    )
    assert [(fault.line, fault.path, fault.text.rpartition(": ")[2]) for fault in found] == [
        (5, "jobs.c.needs[0]", "a -> b -> c -> a"),
        (6, "jobs.d.needs[1]", "d -> d"),
    ]


def test_a_job_that_needs_another_of_its_own_matrix_is_a_circle() -> None:
    found = faults("version: 1\njobs:\n  t: {matrix: {v: [1, 2]}, needs: [t-1], steps: [x]}\n")
    assert [fault.text.rpartition(": ")[2] for fault in found] == ["t -> t"]


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ("tier: microvm", "jobs.a", "tier microvm runs an image, and none is named"),
        ("tier: process, image: i", "jobs.a", "takes no image"),
        ("network: false", "jobs.a.network", "cannot cut the network off"),
        ("network: yes", "jobs.a.network", "must be true or false"),
        ("cpus: 0", "jobs.a.cpus", "from 1 to"),
        ("cpus: 1.5", "jobs.a.cpus", "whole number"),
        ("cpus: '2'", "jobs.a.cpus", "whole number"),
        ("labels: ssd", "jobs.a.labels", "must be a list, not text"),
        ("labels: [-x]", "jobs.a.labels[0]", "must be a label"),
        ("labels: [7]", "jobs.a.labels[0]", "in quotes; not a number"),
        ("needs: ", "jobs.a.needs", "is empty"),
        ("env: {1A: x}", "jobs.a.env.1A", "must be a variable's name"),
        ("env: {A: [x]}", "jobs.a.env.A", "not a list"),
        ("env: {A: }", "jobs.a.env.A", "is empty"),
        ('env: {A: "\\e[31m"}', "jobs.a.env.A", "without control characters"),
        ("artifacts: [/etc/passwd]", "jobs.a.artifacts[0]", "not absolute"),
        ("artifacts: [a/../../b]", "jobs.a.artifacts[0]", "without `..`"),
        ("reports: {junit: [..]}", "jobs.a.reports.junit[0]", "without `..`"),
        ("reports: {html: [x]}", "jobs.a.reports.html", "unknown key"),
        ("concurrency: {limit: 2}", "jobs.a.concurrency", "lacks `group`"),
        ("keep: always", "jobs.a.keep", "on-failure, never"),
        ("image: Debian 12", "jobs.a.image", "must be an image's name"),
        ("image: cas://blake3/12", "jobs.a.image", "64 hex digits"),
        ("env: {A: '${{ matrix.v }}'}", "jobs.a.env.A", "there is no matrix here"),
        ("env: {A: '${{ matrix.v'}", "jobs.a.env.A", "does not close it"),
        ("cpus: 2, cpus: 3", "jobs.a.cpus", "is written twice; the first stands on line 4"),
    ],
)
def test_a_fault_in_a_job_says_what_would_be_right(body: str, path: str, words: str) -> None:
    fault = job_fault(body)
    assert (fault.path, fault.line) == (path, 4)
    assert words in fault.text


@pytest.mark.parametrize(
    ("sandbox", "words"),
    [
        ("{image: j, tier: microvm}", "a job runs in one tier"),
        ("{image: j, arch: aarch64}", "a job runs on one machine"),
        ("{image: j, network: false}", "a job has one network"),
        ("{}", "a job runs in one tier"),
    ],
)
def test_a_step_whose_sandbox_cannot_stand_beside_the_jobs_is_refused(sandbox: str, words: str) -> None:
    (fault,) = faults(
        f"""\
        version: 1
        sandboxes:
          home: {{image: i, arch: x86_64, network: true}}
          other: {sandbox}
        jobs:
          a:
            sandbox: home
            steps:
              - run: x
              - {{run: y, sandbox: other}}
        """
    )
    assert (fault.path, fault.line) == ("jobs.a.steps[1].sandbox", 10)
    assert words in fault.text


def test_a_command_with_a_hidden_character_is_refused() -> None:
    assert job_fault('env: {A: "a\u202eb"}').path == "jobs.a.env.A"
    (fault,) = faults('version: 1\njobs: {a: {steps: ["x\\u202e"]}}')
    assert fault.path == "jobs.a.steps[0]"


def test_the_names_of_two_jobs_are_never_the_same() -> None:
    found = faults("version: 1\njobs:\n  t-1: {steps: [x]}\n  t: {matrix: {v: [1]}, steps: [x]}\n")
    assert [(fault.path, fault.line) for fault in found] == [("jobs.t", 4)]
    assert "`t-1`, which `t-1` gives too" in found[0].text


def test_faults_end_at_their_bound() -> None:
    many = "".join(f"  j{n}: {{steps: [x], nonsense: 1}}\n" for n in range(2 * MAX_FAULTS))
    assert len(faults(f"version: 1\njobs:\n{many}")) == MAX_FAULTS


def test_an_error_reads_as_sentences() -> None:
    with pytest.raises(PipelineError, match=r"line 2: jobs\.a unknown key|line 1: the file lacks `version`"):
        parse("jobs: {a: {steps: [x]}}")
