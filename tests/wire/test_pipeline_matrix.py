"""What a matrix makes of a job."""

import pytest

from hub.wire.pipeline import PipelineError, parse
from hub.wire.problem import Fault


def faults(body: str) -> list[Fault]:
    with pytest.raises(PipelineError) as caught:
        parse(f"version: 1\njobs:\n  a: {body}\n")
    return caught.value.faults


def test_a_matrix_is_a_product_in_the_order_of_the_file() -> None:
    made = parse("version: 1\njobs: {t: {matrix: {py: [3.10, 3.9], os: [a, b/c]}, steps: [x]}}").jobs
    assert [job.name for job in made] == ["t-3.10-a", "t-3.10-b-c", "t-3.9-a", "t-3.9-b-c"]
    assert made[1].env == {"MATRIX_PY": "3.10", "MATRIX_OS": "b/c"}


def test_an_expression_is_filled_in_wherever_a_job_has_text() -> None:
    (made,) = parse(
        """\
version: 1
sandboxes:
  vm-x: {image: img}
jobs:
  t:
    matrix: {v: [x], size: [2GiB]}
    sandbox: vm-${{ matrix.v }}
    memory: ${{ matrix.size }}
    labels: ["${{matrix.v}}"]
    env: {A: "<${{ matrix.v }}${{ matrix.v }}>"}
    artifacts: ["dist-${{ matrix.v }}/**"]
    concurrency: {group: "g-${{ matrix.v }}"}
    steps:
      - {name: "run ${{ matrix.v }}", run: "echo ${{ matrix.v }}", env: {B: "${{ matrix.v }}"}}
"""
    ).jobs
    assert (made.memory_mib, made.labels, made.env["A"]) == (2048, ["x"], "<xx>")
    assert (made.artifacts, made.images[0].name) == (["dist-x/**"], "img")
    assert made.concurrency is not None
    assert made.concurrency.group == "g-x"
    assert made.steps[0].model_dump() == {"name": "run x", "run": "echo x", "image": None, "env": {"B": "x"}}


def test_what_the_job_sets_itself_wins_over_the_variables_of_its_matrix() -> None:
    (made,) = parse("version: 1\njobs: {t: {matrix: {v: [1]}, env: {MATRIX_V: mine}, steps: [x]}}").jobs
    assert made.env == {"MATRIX_V": "mine"}


def test_a_filled_in_value_is_checked_like_a_written_one() -> None:
    (fault,) = faults("{matrix: {v: ['no label']}, labels: ['${{ matrix.v }}'], steps: [x]}")
    assert (fault.path, fault.line) == ("jobs.a.labels[0]", 3)
    assert "not `no label`" in fault.text


def test_an_expression_that_names_no_key_is_told_the_nearest() -> None:
    (fault,) = faults("{matrix: {python: [1]}, steps: ['${{ matrix.pyhton }}']}")
    assert (fault.path, fault.nearest) == ("jobs.a.steps[0]", "matrix.python")


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ("{}", "is empty"),
        ("{v: []}", "is empty"),
        ("{v: 3}", "must be a list"),
        ("{v: [[1]]}", "not a list"),
        ("{'a-b': [1]}", "must be a word"),
        ("{v: ['${{ x }}']}", "without `${{`"),
        ("{v: [1], V: [2]}", "in its case only"),
        ("{v: [a/b, a-b]}", "two choices of the matrix give the name `a-a-b`"),
        ("{v: [" + "x" * 150 + "]}", "characters; 100 are the most"),
        (
            "{a: &l [1,2,3,4,5,6,7,8,9], b: *l, c: *l}",
            "makes 729 jobs; 500 are the most",
        ),
    ],
)
def test_an_unsound_matrix_says_why(matrix: str, words: str) -> None:
    found = faults(f"{{matrix: {matrix}, steps: [x]}}")
    assert any(words in fault.text for fault in found), found


def test_matrices_that_are_too_many_together_are_refused() -> None:
    job = "{matrix: {v: [" + ",".join(map(str, range(300))) + "]}, steps: [x]}"
    text = f"version: 1\njobs:\n  a: {job}\n  b: {job}\n"
    with pytest.raises(PipelineError, match="one job too many; 500 are the most"):
        parse(text)


def test_a_matrix_as_large_as_a_run_may_be_is_read() -> None:
    many = "[" + ",".join(map(str, range(500))) + "]"
    assert len(parse(f"version: 1\njobs:\n  a: {{matrix: {{v: {many}}}, steps: [x, y, z]}}\n").jobs) == 500


def test_a_run_that_grows_too_large_through_its_matrix_is_refused() -> None:
    many = "[" + ",".join(map(str, range(500))) + "]"
    text = f"version: 1\njobs:\n  a: {{matrix: {{v: {many}}}, steps: ['{'x' * 20_000}']}}\n"
    with pytest.raises(PipelineError, match="makes the run too large"):
        parse(text)
