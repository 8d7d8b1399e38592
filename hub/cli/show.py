"""Views as lines of text: runs, jobs, runners, the fleet, the queue and tokens.

Pure: an object as the API gave it goes in, lines come out; no clock, no network, no printing. The
invariant: a sentence of the hub's (placed, waiting, a lack, a remedy, an error) stands alone behind
its label on a line of its own, byte for byte, so that no table can wrap or cut it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hub.cli.show_results import result_lines, results_line
from hub.cli.terminal import Paint, one_line

Json = dict[str, Any]

FINAL_GOOD = "succeeded"
FINAL = frozenset({"succeeded", "failed", "canceled", "timed_out", "skipped", "error"})

_LOOK = {  # status: (sign, style)
    "succeeded": ("✓", "good"),
    "failed": ("✗", "bad"),
    "timed_out": ("✗", "bad"),
    "error": ("!", "bad"),
    "canceled": ("-", "dim"),
    "skipped": ("-", "dim"),
    "running": ("●", "busy"),
    "preparing": ("●", "busy"),
    "assigned": ("●", "busy"),
    "canceling": ("●", "warn"),
    "queued": ("○", "warn"),
    "blocked": ("○", "dim"),
}
_MAX_NAME = 60  # a longer name is shown whole, but pads no other row

Cell = tuple[str, str]  # (style, text)


def duration(seconds: float) -> str:
    """`0.3 s`, `42 s`, `5 min 12 s`, `2 h 5 min`, `3 d 4 h`: two figures at most."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, name, small, small_name in (
        (60, "min", 1, "s"),
        (3600, "h", 60, "min"),
        (86400, "d", 3600, "h"),
    ):
        if whole < size * {60: 60, 3600: 24}.get(size, 10**9):
            rest = whole % size // small
            return f"{whole // size} {name}" + (f" {rest} {small_name}" if rest else "")
    raise AssertionError("the last size has no end")


def mib(amount: int | None) -> str:
    """Mebibytes as a person reads them; `-` where nothing was reported."""
    if amount is None:
        return "-"
    return f"{amount} MiB" if amount < 10240 else f"{amount / 1024:.1f} GiB"


def spent_s(begun: str | None, ended: str | None, now_ms: int) -> float | None:
    """Seconds from `begun` to `ended`, or to now where it has not ended; None: not begun."""
    if begun is None:
        return None
    end_ms = _ms(ended) if ended else now_ms
    return max(0.0, (end_ms - _ms(begun)) / 1000)


def until_s(time: str, now_ms: int) -> float:
    """Seconds from now to `time`; negative where it is past."""
    return (_ms(time) - now_ms) / 1000


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def table(rows: Sequence[Sequence[Cell]], paint: Paint, *, head: Sequence[str] = ()) -> list[str]:
    """Rows in aligned columns, two spaces apart; the last column is never padded or cut."""
    rows = [*([[("dim", text) for text in head]] if head and rows else []), *rows]
    count = max((len(row) for row in rows), default=0)
    widths = [
        max((len(row[at][1]) for row in rows if at < len(row) and len(row[at][1]) <= _MAX_NAME), default=0)
        for at in range(count)
    ]
    lines = []
    for row in rows:
        parts = [
            paint(style, text) + " " * max(0, widths[at] - len(text)) for at, (style, text) in enumerate(row)
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


def status_cells(status: str) -> tuple[Cell, Cell]:
    """A sign and the word, in the colour of the status."""
    sign, style = _LOOK.get(status, ("?", ""))
    return (style, sign), (style, status)


def sentence(label: str, text: str, paint: Paint, indent: int = 2) -> list[str]:
    """`label: TEXT` alone on its line; further lines, which an error text can have, below it."""
    first, *rest = text.split("\n") or [""]
    head = f"{' ' * indent}{paint('dim', label + ':')} {one_line(first)}"
    return [head, *(" " * (indent + 2) + one_line(line) for line in rest)]


def run_head(run: Json, url: str | None, paint: Paint, now_ms: int) -> list[str]:
    """What stands above the jobs: which run, how it is, where its page is."""
    _, (style, status) = status_cells(run["status"])
    first = f"{paint('bold', 'run ' + str(run['id']))}  {one_line(run['project'])}  {paint(style, status)}"
    spent = spent_s(run["created_at"], run.get("finished_at"), now_ms)
    if spent is not None:
        first += paint("dim", f"  {'after' if run.get('finished_at') else 'for'} {duration(spent)}")
    facts = [one_line(run[key]) for key in ("title", "ref") if run.get(key)]
    if run.get("commit"):
        facts.append(one_line(run["commit"])[:12])
    if run.get("submitted_by"):
        facts.append(f"by {one_line(run['submitted_by'])}")
    if run.get("retry_of"):
        facts.append(f"retry of run {run['retry_of']}")
    return [first, *([" · ".join(facts)] if facts else []), *([paint("dim", url)] if url else [])]


def run_lines(
    run: Json,
    url: str | None,
    paint: Paint,
    now_ms: int,
    *,
    more: dict[int, Json] | None = None,
    results: dict[int, Json] | None = None,
) -> list[str]:
    """A run with its jobs. `more` holds comparisons by job id, for those that are shown in full.

    `results`: what came of their tests, by job id, likewise.
    """
    jobs = run.get("jobs") or []
    rows = table([job_cells(job, now_ms) for job in jobs], paint)
    lines = run_head(run, url, paint, now_ms)
    for job, row in zip(jobs, rows, strict=True):
        lines += ["", row, *job_sentences(job, paint)]
        if more is not None:
            lines += job_details(job, more.get(job["id"]), paint)
        if results and job["id"] in results:
            lines += result_lines(results[job["id"]], paint)
    return lines


def job_cells(job: Json, now_ms: int) -> list[Cell]:
    """One job in a row: sign, name, status, duration, runner, what else is to be known."""
    sign, status = status_cells(job["status"])
    begun = job.get("started_at")
    spent = spent_s(begun, job.get("finished_at"), now_ms) if begun else None
    extra = []
    if job.get("exit_code"):
        extra.append(f"exit {job['exit_code']}")
    if job.get("attempt", 0) > 1:
        extra.append(f"attempt {job['attempt']}")
    return [
        sign,
        ("bold", one_line(job["name"])),
        status,
        ("", duration(spent) if spent is not None else ""),
        ("", one_line(job.get("runner") or "")),
        ("", ", ".join(extra)),
    ]


def job_sentences(job: Json, paint: Paint) -> list[str]:
    """Why it runs where it runs, or why it waits, what it takes, and what went wrong: the hub's own words."""
    lines = []
    if job.get("placed"):
        lines += sentence("placed", job["placed"], paint)
    if job.get("waiting"):
        lines += sentence("waiting", job["waiting"]["headline"], paint)
        for remedy in job["waiting"].get("mend") or []:
            lines += sentence("mend", remedy["text"], paint, indent=4)
    if job.get("takes"):
        lines += sentence("takes", job["takes"], paint)
    if job.get("tests") or job.get("coverage") is not None:
        lines += sentence("tests", results_line(job), paint)
    if job.get("error"):
        lines += sentence("error", job["error"], paint)
    return lines


def job_details(job: Json, comparison: Json | None, paint: Paint) -> list[str]:
    """What -v adds to a job: steps, earlier attempts, every runner with what it lacks."""
    lines: list[str] = []
    for result in job.get("results") or []:
        took = f", {duration(result['duration_s'])}" if result.get("duration_s") is not None else ""
        code = "" if result.get("exit_code") is None else f": exit {result['exit_code']}"
        lines.append(f"    {paint('dim', 'step')} {one_line(result['name'])}{code}{took}")
    attempts = job.get("attempts") or []
    for attempt in attempts if len(attempts) > 1 else []:
        words = [
            f"attempt {attempt['number']} on {attempt['runner']}",
            attempt.get("ended"),
            attempt.get("reason"),
        ]
        lines.append("    " + one_line(": ".join(word for word in words if word)))
    waiting = job.get("waiting")
    if waiting:
        return lines + lack_lines(waiting.get("runners") or [], waiting.get("more", 0), paint)
    if comparison:
        return lines + comparison_lines(comparison, paint, of_images=bool(job.get("images")))
    return lines


def lack_lines(runners: list[Json], more: int, paint: Paint) -> list[str]:
    """Each runner with each of its lacks on a line of its own, and the remedy below."""
    lines = []
    for each in runners:
        for lack in each.get("lacks") or []:
            style = "bad" if lack.get("lasting") else "warn"
            lines.append(f"    {paint(style, '✗')} {one_line(each['runner'])} {one_line(lack['text'])}")
            remedy = lack.get("remedy")
            if remedy:
                lines += sentence("remedy", remedy["text"], paint, indent=6)
    return [*lines, *more_line(more, paint)]


def comparison_lines(comparison: Json, paint: Paint, *, of_images: bool) -> list[str]:
    """Every runner that was looked at when the job was placed: its score, or its lacks.

    `of_images`: the job needs some, so that holding them all means something.
    """
    lines = []
    for each in comparison.get("runners") or []:
        name = one_line(each["runner"])
        if each.get("chosen"):
            lines.append(
                f"    {paint('good', '✓')} {name} {paint('dim', 'took it')}{_score(each, of_images, paint)}"
            )
        elif each.get("lacks"):
            lines += lack_lines([each], 0, paint)
        else:
            lines.append(
                f"    {paint('dim', '·')} {name} {paint('dim', 'could have')}{_score(each, of_images, paint)}"
            )
    told = [comparison[key] for key in ("margin", "waited") if comparison.get(key)]
    return [
        *(f"    {paint('dim', one_line(text))}" for text in told),
        *lines,
        *more_line(comparison.get("more", 0), paint),
    ]


def _score(each: Json, of_images: bool, paint: Paint) -> str:
    parts = []
    if of_images and each.get("holds_images") is not None:
        parts.append("images held" if each["holds_images"] else "images to be fetched")
    if each.get("speed_class") is not None:
        parts.append(f"class {each['speed_class']}")
    if each.get("free_slots") is not None:
        parts.append(f"{each['free_slots']} free slot{'' if each['free_slots'] == 1 else 's'}")
    if each.get("load1") is not None:
        parts.append(f"load {each['load1']:.2f}")
    if each.get("waiting"):
        parts.append("its claim was open")
    return paint("dim", f" ({', '.join(parts)})") if parts else ""


def more_line(more: int, paint: Paint) -> list[str]:
    """What is counted and not named."""
    return [paint("dim", f"    and {more} more runner{'' if more == 1 else 's'}, not named")] if more else []


def runs_lines(listing: Json, paint: Paint, now_ms: int) -> list[str]:
    """Runs in a table, newest first; titles last, so that they are whole."""
    rows = []
    for run in listing.get("runs") or []:
        sign, status = status_cells(run["status"])
        age = spent_s(run["created_at"], None, now_ms) or 0.0
        rows.append(
            [
                sign,
                ("bold", str(run["id"])),
                ("", one_line(run["project"])),
                status,
                ("", f"{run.get('jobs_done', 0)}/{run.get('jobs_total', 0)}"),
                ("dim", f"{duration(age)} ago"),
                ("", one_line(run.get("title") or run.get("ref") or "")),
            ]
        )
    lines = table(rows, paint, head=("", "run", "project", "status", "jobs", "submitted", "title"))
    if listing.get("next") is not None:
        lines.append(paint("dim", f"more: --before {listing['next']}"))
    return lines or ["no runs"]


def preview_lines(preview: Json, paint: Paint, *, verbose: bool) -> list[str]:
    """Where each job would go now, and what each other runner lacks."""
    lines: list[str] = []
    for job in preview.get("jobs") or []:
        name = paint("bold", one_line(job["name"]))
        taker = f"would go to {one_line(job['runner'])}" if job.get("runner") else "nobody would take it now"
        lines += ["", f"{name}  {taker}", *job_sentences(job, paint)]
        others = job.get("runners") or []
        more = job.get("more", 0)
        if not job.get("runner") and job.get("waiting") and not others:
            others, more = job["waiting"].get("runners") or [], job["waiting"].get("more", 0)
        if not verbose:  # the first lack of each; the rest on demand
            others = [
                {**each, "lacks": [dict(lack, remedy=None) for lack in each["lacks"][:1]]} for each in others
            ]
        lines += lack_lines(others, more, paint)
    return lines[1:] or ["no jobs"]
