"""The jobs of a run as a graph of what needs what: boxes in columns, lines between them.

Pure: views in, coordinates for an SVG out, in its pixels. Jobs that need the same and are needed by the
same, such as those of a matrix, are one box once there are more than ALONE of them, so that three
hundred jobs are a picture and not a wall. A line that follows from others is not drawn. The same stands
in words beside the picture; a run whose jobs do not need each other has no graph.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hub.wire.runs import JobView

ALONE = 4  # jobs alike that still get a box each
MAX_BOXES = 120  # drawn: a graph of more is not taken in at a glance, and stands in words only
MAX_NAME = 21  # characters of a name that fit in a box

WIDTH, HEIGHT = 200, 44  # of a box
ACROSS, DOWN = 56, 14  # between boxes
EDGE = 2  # around them, for the lines of the outermost boxes

# What a box of many shows: the first of these that one of its jobs has.
_GRAVEST = (
    "error", "failed", "timed_out", "running", "preparing", "assigned", "canceling", "queued", "blocked",
    "canceled", "skipped", "succeeded",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One job, or several alike. `job`: where it leads; `status`: the gravest of its jobs'.

    `counts`: how many of its jobs have which status, the gravest first; empty for one job alone.
    `needs`: labels of the boxes that it needs. `x`, `y`: its upper left corner.
    """

    job: int
    label: str
    short: str
    status: str
    count: int
    counts: tuple[tuple[str, int], ...]
    needs: tuple[str, ...]
    jobs: frozenset[int]
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """From the right edge of a box to the left edge of one that needs it."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def path(self) -> str:
        """For the `d` of a path."""
        middle = (self.x1 + self.x2) // 2
        return f"M{self.x1} {self.y1}C{middle} {self.y1} {middle} {self.y2} {self.x2} {self.y2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The picture. `drawn` False: too many boxes; they stand in words only, and have no place."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: int
    height: int
    drawn: bool


@dataclass(slots=True)
class _Node:
    jobs: list[JobView]
    needs: set[int] = field(default_factory=set)  # of other nodes
    column: int = 0
    row: float = 0


def graph_of(jobs: Sequence[JobView]) -> Graph | None:
    """The graph of a run's jobs; None: none of them needs another."""
    nodes = _nodes(jobs)
    if not any(node.needs for node in nodes):
        return None
    order = _place(nodes)
    drawn = len(nodes) <= MAX_BOXES
    columns: list[list[int]] = [[] for _ in range(1 + max(node.column for node in nodes))]
    for index in order:
        columns[nodes[index].column].append(index)
    tallest = max(len(column) for column in columns)
    places: dict[int, tuple[int, int]] = {}
    for number, column in enumerate(columns):
        free = (tallest - len(column)) * (HEIGHT + DOWN) // 2
        for row, index in enumerate(column):
            places[index] = (EDGE + number * (WIDTH + ACROSS), EDGE + free + row * (HEIGHT + DOWN))
    labels = [_label(node.jobs) for node in nodes]
    lines = (
        Line(
            x1=places[needed][0] + WIDTH,
            y1=places[needed][1] + HEIGHT // 2,
            x2=places[index][0],
            y2=places[index][1] + HEIGHT // 2,
        )
        for index in order
        for needed in sorted(_direct(nodes, index))
    )
    return Graph(
        boxes=tuple(_box(nodes, index, labels, places[index]) for index in order),
        lines=tuple(lines) if drawn else (),
        width=2 * EDGE + len(columns) * (WIDTH + ACROSS) - ACROSS,
        height=2 * EDGE + tallest * (HEIGHT + DOWN) - DOWN,
        drawn=drawn,
    )


def _nodes(jobs: Sequence[JobView]) -> list[_Node]:
    """Jobs alike put together, each node with the nodes that it needs. What no job is called is left out."""
    named = {job.name: index for index, job in reversed(list(enumerate(jobs)))}
    needs = [
        frozenset(named[name] for name in job.needs if name in named and named[name] != index)
        for index, job in enumerate(jobs)
    ]
    needed_by: list[set[int]] = [set() for _ in jobs]
    for index, found in enumerate(needs):
        for each in found:
            needed_by[each].add(index)
    alike: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for index in range(len(jobs)):
        alike.setdefault((needs[index], frozenset(needed_by[index])), []).append(index)
    nodes: list[_Node] = []
    node_of: dict[int, int] = {}
    for members in alike.values():
        for together in [members] if len(members) > ALONE else [[one] for one in members]:
            node_of.update(dict.fromkeys(together, len(nodes)))
            nodes.append(_Node(jobs=[jobs[index] for index in together]))
    for index, found in enumerate(needs):
        mine = node_of[index]
        nodes[mine].needs.update(node_of[each] for each in found if node_of[each] != mine)
    return nodes


def _place(nodes: list[_Node]) -> list[int]:
    """Give each node its column, one behind the last that it needs; all of them, column by column.

    Within a column they stand in the order of what they need, so that few lines cross.
    """
    left = {index: set(node.needs) for index, node in enumerate(nodes)}
    order: list[int] = []
    column = 0
    while left:
        ready = [index for index, needs in left.items() if not needs]
        if not ready:  # a circle, which no pipeline that was read has: it is shown all the same
            ready = list(left)
        for index in ready:
            node = nodes[index]
            node.column = column
            above = [nodes[each].row for each in node.needs if each not in left]
            node.row = sum(above) / len(above) if above else 0
        ready.sort(key=lambda index: (nodes[index].row, index))
        for row, index in enumerate(ready):
            nodes[index].row = row - len(ready) / 2
            del left[index]
        for needs in left.values():
            needs.difference_update(ready)
        order += ready
        column += 1
    return order


def _direct(nodes: list[_Node], index: int) -> set[int]:
    """The nodes that a node needs, without those that another of them needs already."""
    implied: set[int] = set()
    seen: set[int] = set()
    begin = nodes[index].needs
    todo = [each for needed in begin for each in nodes[needed].needs]
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            implied.add(each)
            todo += nodes[each].needs
    return begin - implied or set(begin)


def _box(nodes: list[_Node], index: int, labels: list[str], place: tuple[int, int]) -> Box:
    node = nodes[index]
    counted = [(status, sum(job.status == status for job in node.jobs)) for status in _GRAVEST]
    counts = tuple((status, number) for status, number in counted if number)
    gravest = counts[0][0]
    label = labels[index]
    return Box(
        job=next(job.id for job in node.jobs if job.status == gravest),
        label=label,
        short=label if len(label) <= MAX_NAME else f"{label[: MAX_NAME - 9]}…{label[-8:]}",
        status=gravest,
        count=len(node.jobs),
        counts=counts if len(node.jobs) > 1 else (),
        needs=tuple(labels[each] for each in sorted(node.needs)),
        jobs=frozenset(job.id for job in node.jobs),
        x=place[0],
        y=place[1],
    )


def _label(jobs: Sequence[JobView]) -> str:
    """A job's name; of several, what their names begin with and how many they are."""
    if len(jobs) == 1:
        return jobs[0].name
    first, last = min(job.name for job in jobs), max(job.name for job in jobs)
    shared = next(
        (at for at, (one, two) in enumerate(zip(first, last, strict=False)) if one != two), len(first)
    )
    begin = re.split(r" \(", re.sub(r"[^ \-_.(,/=]*$", "", first[:shared]))[0].rstrip(" -_.(,/=")
    return f"{begin} … ({len(jobs)})" if begin else f"{len(jobs)} jobs"
