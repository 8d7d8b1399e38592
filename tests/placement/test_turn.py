"""Whose turn it is: priority, then the owner who has the fewest jobs running, then age."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hub.placement.board import PlainBoard
from hub.placement.choose import choose
from hub.placement.model import Placed, QueuedJob
from hub.placement.preview import preview
from hub.placement.turn import Rivals, ahead, holding, in_turn
from tests.fleets import NOW_MS, fleet, job, runner


def _job(number: int, owner: str, *, priority: int = 0, age_s: int = 0) -> QueuedJob:
    return job(number, project=f"{owner}/demo", order=(-priority, NOW_MS - age_s * 1000, number))


def test_an_owner_with_nothing_running_goes_before_an_older_job_of_one_who_has() -> None:
    busy = runner("busy", placed=(Placed(job=9, owner="andy"),), waiting=False)
    free = runner("free", waiting=True)
    older, newer = _job(1, "andy", age_s=60), _job(2, "bea", age_s=1)
    taken = choose(PlainBoard(fleet(busy, free), [older, newer], NOW_MS), "free").take
    assert taken == newer


def test_priority_goes_before_fairness_and_age_decides_between_equals() -> None:
    free = runner("free", waiting=True)
    busy = runner("busy", placed=(Placed(job=9, owner="andy"),))
    urgent, other = _job(1, "andy", priority=1), _job(2, "bea", age_s=60)
    assert choose(PlainBoard(fleet(busy, free), [urgent, other], NOW_MS), "free").take == urgent
    older, newer = _job(1, "bea", age_s=60), _job(2, "cem", age_s=1)
    assert choose(PlainBoard(fleet(free), [older, newer], NOW_MS), "free").take == older


def test_a_thousand_jobs_of_one_owner_let_the_one_job_of_another_in_second() -> None:
    flood = [_job(number, "andy", age_s=100) for number in range(1, 1001)]
    late = _job(2000, "bea")
    held: Counter[str] = Counter()
    order = []
    for one in in_turn([*flood, late], held):
        held[one.demand.owner] += 1
        order.append(one.id)
    assert order[:3] == [1, 2000, 2]


def test_a_preview_gives_out_in_turn_beside_the_queue() -> None:
    free = [runner(name, waiting=True) for name in "ab"]
    queue = [_job(number, "andy", age_s=100) for number in range(1, 4)]
    [mine] = preview(fleet(*free), queue, [_job(2000, "bea")], NOW_MS)
    assert mine.runner is not None, "it is given the second slot, before andy's second job"


@given(
    st.lists(
        st.tuples(st.sampled_from(["andy", "bea", "cem"]), st.integers(0, 2), st.integers(0, 9)),
        min_size=1,
        max_size=25,
    ),
    st.dictionaries(st.sampled_from(["andy", "bea", "cem"]), st.integers(0, 6)),
)
def test_the_place_in_line_is_the_place_in_which_jobs_are_given_out(
    asked: list[tuple[str, int, int]], held: dict[str, int]
) -> None:
    jobs = [
        _job(number, owner, priority=priority, age_s=age)
        for number, (owner, priority, age) in enumerate(asked, start=1)
    ]
    order: list[int] = []
    running = Counter(held)
    for one in in_turn(jobs, running):
        running[one.demand.owner] += 1
        order.append(one.id)
    for one in jobs:
        rivals: dict[str, Rivals] = {}
        for other in jobs:
            if other.id != one.id and other.priority >= one.priority:
                its = rivals.setdefault(other.demand.owner, Rivals())
                its.higher += other.priority > one.priority
                its.equal += other.priority == one.priority
                its.older += other.priority == one.priority and other.order < one.order
        assert ahead(one, rivals, held) == order.index(one.id)


def test_only_known_owners_are_counted() -> None:
    placed = (Placed(job=1, owner="andy"), Placed(job=2, owner="andy"), Placed(job=3))
    assert holding(fleet(runner("r", placed=placed))) == {"andy": 2}
