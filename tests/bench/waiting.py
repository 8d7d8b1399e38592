"""Why 10,000 jobs wait on 1,000 runners: what a look round costs, what a preview costs, and how both grow.

Each figure beside the plain way in the same run: every demand judged in full on every runner. Prints
figures, gives no verdict: `make bench`.
"""

import json
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

from hub.dispatch.board import LiveBoard
from hub.dispatch.reasons import Reasons
from hub.placement.model import Fleet, QueuedJob, Runner
from hub.placement.preview import preview
from hub.placement.waiting import judge
from tests.dispatch.test_board import live_board
from tests.fleets import NOW_MS, fleet, job, runner

RUNNERS, JOBS = 1_000, 10_000
JUDGED = 20  # demands judged in full for the comparison: the whole would take minutes
BATCH = 10  # jobs previewed together


def _fleet(rng: random.Random) -> Fleet:
    def one(number: int) -> Runner:
        return runner(
            f"r{number}",
            labels=("ssd",) if number % 3 else ("gpu",),
            memory_mib=32_000,
            memory_used_mib=3_000,
            cpus=8,
            free_disk_mib=50_000,
            max_jobs=4,
            placed=rng.randrange(5),
            speed=100,
            speed_class=number % 5,
            load1=0.5,
        )

    return fleet(*(one(number) for number in range(RUNNERS)))


def _jobs(count: int, demands: int) -> list[QueuedJob]:
    """Jobs of so many demands: a third asks for what nobody has, others for more than is free, or less."""
    return [
        job(
            number,
            labels=("ssd",) if number % 3 else ("gpu", "x"),
            memory_mib=1_000 + 10 * (number % demands),
        )
        for number in range(1, count + 1)
    ]


def _spent_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _judge_all(jobs: list[QueuedJob], value: Fleet) -> None:
    for one in jobs:
        judge(one, value, NOW_MS)


def _round(board: LiveBoard) -> tuple[float, float]:
    """One look at every demand: all of it, and the longest single look, in ms."""
    reasons = Reasons(board)
    spent = [_spent_ms(partial(reasons.look, group, NOW_MS, 1000)) for group in board.queue.groups.values()]
    return sum(spent), max(spent)


def main() -> None:
    """Measure, and print a table and the same as JSON."""
    value = _fleet(random.Random(7))
    figures: dict[str, float] = {}
    for demands in (200, 2_000):
        board = live_board(value, _jobs(JOBS, demands))
        total, longest = _round(board)
        groups = list(board.queue.groups.values())
        heads = [one.jobs[0] for one in groups[:JUDGED]]
        in_full = _spent_ms(partial(_judge_all, heads, value)) / len(heads) * len(groups)
        figures[f"round, {len(groups)} demands, ms"] = total
        figures[f"longest look, {len(groups)} demands, ms"] = longest
        figures[f"of judging in full, {len(groups)} demands"] = total / in_full
    small, large = (_round(live_board(value, _jobs(count, 200)))[0] for count in (1_000, 100_000))
    figures["growth of a round, 1,000 to 100,000 jobs"] = large / small
    late = (0, NOW_MS, 10**9)
    batch = [job(-number, order=late, memory_mib=2_048) for number in range(1, BATCH + 1)]
    spent_ms = _spent_ms(partial(preview, value, _jobs(JOBS, 200), batch, NOW_MS))
    figures[f"preview of {BATCH} jobs beside {JOBS}, ms"] = spent_ms
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = live_board(value, _jobs(200_000, 200))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    figures["queued job in the dispatcher, bytes"] = grown_kib * 1024 / len(kept.queue)
    for name, figure in figures.items():
        sys.stdout.write(f"  {name:<48}{figure:>12.2f}\n")
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
