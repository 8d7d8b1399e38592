"""The jobs of a run as boxes in columns, and lines between them."""

from hypothesis import given
from hypothesis import strategies as st

from hub.web.graph import ALONE, HEIGHT, MAX_BOXES, WIDTH, Graph, graph_of
from hub.wire.runs import JobView
from tests.web import samples


def jobs(needs: dict[str, list[str]], **statuses: str) -> list[JobView]:
    return [
        samples.job(id=number, name=name, needs=asked, status=statuses.get(name, "succeeded"))
        for number, (name, asked) in enumerate(needs.items(), start=1)
    ]


def drawn(needs: dict[str, list[str]], **statuses: str) -> Graph:
    graph = graph_of(jobs(needs, **statuses))
    assert graph is not None
    return graph


def test_a_run_whose_jobs_need_nothing_has_no_graph() -> None:
    assert graph_of(jobs({"a": [], "b": []})) is None
    assert graph_of([]) is None


def test_a_job_stands_in_the_column_behind_the_last_that_it_needs() -> None:
    graph = drawn({"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"], "e": []})
    columns = {box.label: box.x // WIDTH for box in graph.boxes}
    assert columns == {"a": 0, "e": 0, "b": 1, "c": 2, "d": 3}


def test_a_line_that_follows_from_others_is_not_drawn() -> None:
    graph = drawn({"a": [], "b": ["a"], "c": ["a", "b"]})
    assert len(graph.lines) == 2
    assert next(box for box in graph.boxes if box.label == "c").needs == ("a", "b")


def test_many_jobs_alike_are_one_box_that_leads_to_the_gravest() -> None:
    matrix = {f"test (shard={number})": ["build"] for number in range(299)}
    graph = drawn({"build": [], **matrix, "report": list(matrix)}, **{"test (shard=7)": "failed"})
    assert [(box.label, box.count, box.status) for box in graph.boxes] == [
        ("build", 1, "succeeded"),
        ("test … (299)", 299, "failed"),
        ("report", 1, "succeeded"),
    ]
    assert graph.boxes[1].counts == (("failed", 1), ("succeeded", 298))
    assert graph.boxes[1].job == 9
    assert len(graph.lines) == 2


def test_a_few_jobs_alike_are_a_box_each() -> None:
    graph = drawn({"build": [], **{f"test-{number}": ["build"] for number in range(ALONE)}})
    assert len(graph.boxes) == 1 + ALONE


def test_a_graph_of_too_many_boxes_stands_in_words_only() -> None:
    chain = {f"job-{number}": [f"job-{number - 1}"] if number else [] for number in range(MAX_BOXES + 1)}
    graph = drawn(chain)
    assert not graph.drawn
    assert not graph.lines
    assert len(graph.boxes) == MAX_BOXES + 1


def test_a_long_name_keeps_both_of_its_ends() -> None:
    graph = drawn({"a": [], "integration-tests-on-postgres-17": ["a"]})
    assert graph.boxes[1].short == "integration-…tgres-17"


def test_needs_in_a_circle_and_of_nobody_are_shown_all_the_same() -> None:
    graph = drawn({"a": ["b"], "b": ["a"], "c": ["c", "gone", "a"]})
    assert sorted(box.label for box in graph.boxes) == ["a", "b", "c"]


NAMES = st.lists(st.sampled_from("abcdefghij"), max_size=4)


@given(st.dictionaries(st.sampled_from("abcdefghij"), NAMES, min_size=1))
def test_every_job_is_in_one_box_and_no_two_boxes_touch(needs: dict[str, list[str]]) -> None:
    made = jobs(needs)
    graph = graph_of(made)
    if graph is None:
        return
    held = [job for box in graph.boxes for job in box.jobs]
    assert sorted(held) == sorted(job.id for job in made)
    for index, one in enumerate(graph.boxes):
        assert 0 <= one.x <= graph.width - WIDTH
        assert 0 <= one.y <= graph.height - HEIGHT
        for other in graph.boxes[:index]:
            assert abs(one.x - other.x) > WIDTH or abs(one.y - other.y) > HEIGHT
