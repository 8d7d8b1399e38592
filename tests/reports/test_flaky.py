"""A test is flaky if its outcome does not follow from what was tested; a bug that is mended is not."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.reports.flaky import CHANGES, Seen, flaky
from hub.reports.junit import digest

NAME = "t::a"


def runs(outcomes: str, commits: str | None = None) -> list[Seen]:
    """One run a letter: P passed, F failed, B both, - did not run; `commits` None: each on its own."""
    return [
        Seen(
            job=number,
            commit=f"c{number}" if commits is None else None if commits[number] == "-" else commits[number],
            fell=frozenset({NAME} if outcome in "FB" else ()),
            passed=(digest(NAME) if outcome in "PB" else b"", digest("t::other")),
        )
        for number, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcomes", "commits", "why"),
    [
        ("PF", "aa", "passed and failed on commit a"),
        ("FPF", "aba", None),  # a bug, mended elsewhere, and its commit tried again
        ("FPP", "aba", "passed and failed on commit a"),
        ("PF", "--", None),  # nobody knows of what
        ("B", None, "passed and failed in one run"),
        ("PPFFPP", None, None),  # a bug, mended
        ("PFPF", None, "changed its outcome 3 times in 4 runs"),
        ("P-F-P-F", None, "changed its outcome 3 times in 4 runs"),
        ("PFPFP-", None, None),  # it did not run this time
        ("FFFF", None, None),
        ("", None, None),
    ],
)
def test_a_test_is_flaky_or_not(outcomes: str, commits: str | None, why: str | None) -> None:
    assert [one.why for one in flaky(runs(outcomes, commits))] == ([] if why is None else [why])


def test_each_flaky_test_is_named_once_in_order_of_names() -> None:
    names = frozenset({"t::b", "t::a"})
    both = tuple(digest(name) for name in sorted(names))
    seen = [
        Seen(job=1, commit="c", fell=names, passed=()),
        Seen(job=2, commit="c", fell=frozenset(), passed=both),
    ]
    assert [one.name for one in flaky(seen)] == ["t::a", "t::b"]


@given(st.text("PF", min_size=1, max_size=20))
def test_on_commits_of_their_own_only_the_number_of_changes_counts(outcomes: str) -> None:
    changes = sum(a != b for a, b in pairwise(outcomes))
    assert bool(flaky(runs(outcomes))) == (changes >= CHANGES)


@given(st.text("PF-", min_size=1, max_size=20), st.data())
def test_a_test_whose_outcome_follows_from_its_commit_is_never_called_out_on_one(
    outcomes: str, data: st.DataObject
) -> None:
    commits = "".join(
        "g" if one == "P" else "b" if one == "F" else data.draw(st.sampled_from("gb")) for one in outcomes
    )
    assert not any("commit" in one.why for one in flaky(runs(outcomes, commits)))
