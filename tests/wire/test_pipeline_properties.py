"""Whatever the text, `parse` answers with jobs or with faults, and with nothing else."""

import string

from hypothesis import example, given
from hypothesis import strategies as st

from hub.wire.pipeline import MAX_FAULTS, PipelineError, parse
from hub.wire.spec import Pipeline
from tests.wire.test_pipeline import CONTRACT

_PIECES = [
    "",
    *"{}[],:&*!|>'\"%@`#?-~ \t\n\\",
    "<<: ",
    "${{ matrix.python }}",
    "${{",
    "}}",
    "&a ",
    "*a",
    "---\n",
    "\0",
]


def outcome(text: str) -> Pipeline | PipelineError:
    """What `parse` makes of a text; anything but its own error passes through and fails the test."""
    try:
        return parse(text)
    except PipelineError as error:
        return error


def check(text: str) -> None:
    result = outcome(text)
    if isinstance(result, PipelineError):
        assert 1 <= len(result.faults) <= MAX_FAULTS
        lines = text.count("\n") + text.count("\r") + text.count("\x85") + 2
        assert all(fault.line is None or 1 <= fault.line <= lines for fault in result.faults)
        assert all("\n" not in fault.text + fault.path for fault in result.faults)
        assert [f.line or 0 for f in result.faults] == sorted(f.line or 0 for f in result.faults)
    else:
        names = [job.name for job in result.jobs]
        assert len(set(names)) == len(names) >= 1
        assert all(need in names for job in result.jobs for need in job.needs)
        assert Pipeline.model_validate_json(result.model_dump_json()) == result


@given(st.text(max_size=200))
@example('"\\Uffffffff"')
@example("a: \ud800")
@example("\ufeff")
@example("%YAML 9.9\n---\na: 1")
def test_any_text_gives_jobs_or_faults(text: str) -> None:
    check(text)


@given(st.text(alphabet=st.sampled_from(string.ascii_lowercase[:4] + "{}[],:&*!|>'\"%?- \n<1~"), max_size=80))
def test_any_text_that_looks_like_yaml_gives_jobs_or_faults(text: str) -> None:
    check(text)


@given(st.data())
def test_a_valid_file_with_pieces_cut_out_or_put_in_gives_jobs_or_faults(data: st.DataObject) -> None:
    text = CONTRACT
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(_PIECES) | st.text(max_size=4)) + text[end:]
    check(text)


@given(st.permutations(CONTRACT.splitlines(keepends=True)))
def test_a_valid_file_with_its_lines_shuffled_gives_jobs_or_faults(lines: list[str]) -> None:
    check("".join(lines))


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=8))
def test_a_file_is_refused_exactly_when_its_jobs_wait_in_a_circle(needs: dict[int, list[int]]) -> None:
    known = {job: [need for need in wanted if need in needs] for job, wanted in needs.items()}
    rows = [
        f"  j{job}: {{steps: [x], needs: [{', '.join(f'j{n}' for n in wanted)}]}}"
        for job, wanted in known.items()
    ]
    left, before = dict(known), -1
    while len(left) != before:  # take away what waits for nothing; what is left is a circle
        before = len(left)
        left = {job: wanted for job, wanted in left.items() if any(need in left for need in wanted)}
    result = outcome("\n".join(["version: 1", "jobs:", *rows]))
    assert isinstance(result, PipelineError) == bool(left)
