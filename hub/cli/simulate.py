"""`shunter simulate`: policies side by side on one load, in virtual time, without a hub.

The only command that runs the rules of placement itself; they are loaded inside the functions, so
that nothing else pays for them. No rule stands here: figures in, a table or a picture out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from xml.sax.saxutils import escape

from hub.cli.errors import CliError, Usage
from hub.cli.session import Session, show
from hub.cli.terminal import one_line
from hub.cli.words import Argument, Option

if TYPE_CHECKING:
    from hub.placement.simulate import Outcome
    from hub.placement.trace import Trace

MAX_RUNNERS, MAX_JOBS = 1000, 100_000  # a made load that still ends while somebody looks on
MAX_HOLD_S = 600
MAX_HOLDS = 20
MAX_SEEDS = 100
MAX_POOLED = 200_000  # jobs of all seeds: each is kept in memory once a policy

Row = dict[str, Any]


def simulate(
    session: Session,
    trace: Annotated[
        str | None, Argument(metavar="TRACE", help="A trace file, JSON lines [made from --kind and --seed].")
    ] = None,
    kind: Annotated[
        Literal["burst", "steady", "mixed", "cold"], Option("--kind", help="The kind of load to make.")
    ] = "steady",
    seed: Annotated[int, Option("--seed", metavar="N", help="The same seed gives the same answer.")] = 1,
    runners: Annotated[
        int, Option("--runners", metavar="N", help="Runners to make.", low=1, high=MAX_RUNNERS)
    ] = 20,
    jobs: Annotated[int, Option("--jobs", metavar="N", help="Jobs to make.", low=1, high=MAX_JOBS)] = 500,
    seeds: Annotated[
        int,
        Option(
            "--seeds",
            metavar="N",
            help="Loads to pool: of that seed, the next, and so on.",
            low=1,
            high=MAX_SEEDS,
        ),
    ] = 1,
    hold: Annotated[
        list[str] | None,
        Option("--hold", metavar="S", help="Seconds to hold a job, may be repeated [0, 5, 15, 30]."),
    ] = None,
    svg: Annotated[
        Path | None, Option("--svg", metavar="FILE", help="Draw the comparison into this file.")
    ] = None,
    write: Annotated[
        Path | None, Option("--write", metavar="FILE", help="Write the trace, to be read back.")
    ] = None,
) -> None:
    """Compare policies on a load, in virtual time.

    First poller, random runner and image locality choose by themselves among what fits; `hold N s`
    are the rules of this hub, with that hold. The file format stands in hub/placement/trace.py.
    """
    holds_ms = None if hold is None else _holds(hold)
    loads = (_load(trace, kind, one, runners, jobs) for one in range(seed, seed + seeds))
    load = next(loads)
    if len(load.jobs) * seeds > MAX_POOLED:
        raise Usage(f"the jobs of all --seeds: {MAX_POOLED} at most")
    if write is not None:
        from hub.placement.trace import write as lines_of

        _write(write, "".join(f"{line}\n" for line in lines_of(load)))
    rows = compare(chain([load], loads), seed, holds_ms)
    title = Path(trace).name if trace is not None else kind
    title += f", seed {seed}" if seeds == 1 else f", seeds {seed} to {seed + seeds - 1}"
    title += f": {len(load.jobs)} jobs on {len(load.runners)} runners"
    if svg is not None:
        _write(svg, picture(title, rows))
    show(session, {"load": title, "policies": rows}, lambda: [one_line(title), *table(rows)])


def compare(loads: "Iterable[Trace]", seed: int, holds_ms: Sequence[int] | None) -> list[Row]:
    """One row a policy, pooled over `loads`, the first of which has `seed`. `holds_ms` None: the usual."""
    from hub.placement.policies import HOLDS_MS
    from hub.placement.simulate import simulate as run

    pooled: dict[str, list[Outcome]] = {}
    for number, load in enumerate(loads, start=seed):
        for outcome in run(load, seed=number, holds_ms=HOLDS_MS if holds_ms is None else holds_ms):
            pooled.setdefault(outcome.policy, []).append(outcome)
    return [summary(outcomes) for outcomes in pooled.values()]


def summary(outcomes: "Sequence[Outcome]") -> Row:
    """One policy's figures, over the jobs of all its simulations: counts and bytes are sums.

    Times are in ms (None: no job ended), `use` is the mean share.
    """
    starts = sorted(one.start_ms - one.ready_ms for outcome in outcomes for one in outcome.ran)
    ends = sorted(one.end_ms - one.ready_ms for outcome in outcomes for one in outcome.ran)
    return {
        "policy": outcomes[0].policy,
        "jobs": len(starts),
        "nowhere": sum(len(one.nowhere) for one in outcomes),
        "start_mean_ms": _mean(starts),
        "start_p95_ms": _p95(starts),
        "finish_mean_ms": _mean(ends),
        "finish_p95_ms": _p95(ends),
        "bytes_fetched": sum(one.bytes_fetched for one in outcomes),
        "use": round(sum(one.use for one in outcomes) / len(outcomes), 4),
        "holds_won": sum(one.holds_won for one in outcomes),
        "holds_lost": sum(one.holds_lost for one in outcomes),
    }


def _mean(figures: Sequence[int]) -> int | None:
    return round(sum(figures) / len(figures)) if figures else None


def _p95(ordered: Sequence[int]) -> int | None:
    """The least figure that 95 of 100 do not exceed (nearest rank)."""
    return ordered[-(-len(ordered) * 95 // 100) - 1] if ordered else None


def table(rows: Sequence[Row]) -> list[str]:
    """One line a policy below a heading, and a last one for jobs that fit nowhere."""
    head = ("policy", "start", "p95", "finish", "p95", "fetched", "use", "holds won", "lost")
    cells = [head]
    cells += [
        (
            row["policy"],
            *(_seconds(row[key]) for key in _TIMES),
            _gigabytes(row["bytes_fetched"]),
            f"{row['use']:.0%}",
            str(row["holds_won"]),
            str(row["holds_lost"]),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
    if rows and rows[0]["nowhere"]:
        lines.append(f"{rows[0]['nowhere']} jobs fit on no runner and are left out")
    return lines


_TIMES = ("start_mean_ms", "start_p95_ms", "finish_mean_ms", "finish_p95_ms")


def _seconds(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.1f} s"


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB"


def _holds(words: Sequence[str]) -> list[int]:
    """The holds in ms, each once, shortest first. Raises Usage."""
    found = set()
    for word in words:
        try:
            seconds = float(word)
        except ValueError:
            raise Usage(f"--hold {word}: not a number of seconds") from None
        if not 0 <= seconds <= MAX_HOLD_S:
            raise Usage(f"--hold {word}: not within 0 and {MAX_HOLD_S} seconds")
        found.add(round(seconds * 1000))
    if len(found) > MAX_HOLDS:
        raise Usage(f"--hold: {MAX_HOLDS} at most")
    return sorted(found)


def _load(file: str | None, kind: Any, seed: int, runners: int, jobs: int) -> "Trace":
    """The trace in the file, else a made one. Raises Usage."""
    from hub.placement.trace import TraceError, make, read

    try:
        if file is None:
            return make(kind, seed=seed, runners=runners, jobs=jobs)
        with Path(file).open(encoding="utf-8") as lines:
            return read(lines)
    except TraceError as error:
        raise Usage(f"{file}: {error}" if file else str(error)) from None
    except UnicodeDecodeError:
        raise Usage(f"{file}: is not UTF-8 text") from None
    except OSError as error:
        raise Usage(f"{file}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None


# -- the picture --------------------------------------------------------------------------------

WIDTH, LABEL, VALUE, BAR, GAP = 720, 130, 90, 14, 26
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.b{font-weight:600}.m{fill:#59636e}"
    ".p{fill:#b6d4f5}.a{fill:#0969da}.bg{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}"
    ".p{fill:#1c3d63}.a{fill:#4493f8}.bg{fill:#0d1117}}"
)
_PANELS = (
    ("time to start", "start_mean_ms", "start_p95_ms"),
    ("time to finish", "finish_mean_ms", "finish_p95_ms"),
    ("bytes fetched", "bytes_fetched", None),
)


def picture(title: str, rows: Sequence[Row]) -> str:
    """An SVG: one panel a figure, one bar a policy, p95 faint behind the mean. Light and dark."""
    height = 64 + len(_PANELS) * (GAP * (len(rows) + 1) + 14)
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(one_line(title))}</title><style>{_STYLE}</style>",
            f'<rect class="bg" width="{WIDTH}" height="{height}"/>',
            f'<text class="b" x="12" y="26">{escape(one_line(title))}</text>',
            '<text class="m" x="12" y="46">shorter is better; strong: mean, faint: 95 of 100 jobs</text>',
            *_panels(rows),
            "</svg>\n",
        )
    )


def _panels(rows: Sequence[Row]) -> Iterator[str]:
    y = 76
    for name, mean, p95 in _PANELS:
        most = max((row[key] or 0 for row in rows for key in (mean, p95) if key), default=0) or 1
        yield f'<text class="b" x="12" y="{y}">{name}</text>'
        for row in rows:
            y += GAP
            yield f'<text x="12" y="{y}">{escape(row["policy"])}</text>'
            for style, key in (("p", p95), ("a", mean)):
                if key and row[key]:
                    length = round((WIDTH - LABEL - VALUE - 24) * row[key] / most, 1)
                    place = f'x="{LABEL}" y="{y - 12}" width="{length}" height="{BAR}"'
                    yield f'<rect class="{style}" {place} rx="2"/>'
            said = _seconds(row[mean]) if p95 else _gigabytes(row[mean])
            yield f'<text class="m" x="{WIDTH - 12}" y="{y}" text-anchor="end">{said}</text>'
        y += GAP + 14
