"""Runners, the fleet, the queue and tokens as lines of text; pure, as `show` is."""

from typing import Any

from hub.cli.show import Cell, duration, mib, sentence, spent_s, table, until_s
from hub.cli.terminal import Paint, one_line

Json = dict[str, Any]

_STATE = {"active": "good", "draining": "warn", "quarantined": "bad"}
_HEAD = ("runner", "state", "heard", "jobs", "free memory", "free CPUs", "free disk", "speed", "labels")


def runners_lines(runners: list[Json], paint: Paint, now_ms: int | None = None) -> list[str]:
    """Runners in a table: state, when heard, room, labels; each reason on a line of its own.

    `now_ms`: told too what each holds, is kept for and was awaited for. None: the table alone.
    """
    rows = table([_runner_cells(each) for each in runners], paint, head=_HEAD)
    if not rows:
        return ["no runners: shunter runners add NAME"]
    lines = [rows[0]]
    for each, row in zip(runners, rows[1:], strict=True):
        lines.append(row)
        if each.get("state_reason"):
            lines += sentence("reason", each["state_reason"], paint)
        if now_ms is not None:
            lines += [f"    {paint('dim', told)}" for told in _standing(each, now_ms)]
    return lines


def _standing(each: Json, now_ms: int) -> list[str]:
    """What else the hub knows of a runner: images, what it is kept for, and how it kept its promises."""
    told = []
    if images := len(each.get("images") or []):
        told.append(f"holds {images} image{'' if images == 1 else 's'}")
    if kept := each.get("kept_for"):
        waited = duration(spent_s(kept["queued_at"], None, now_ms) or 0)
        told.append(f"is kept for {_job(kept)}, waiting for {waited}, that smaller ones kept out")
    if last := each.get("last_awaited"):
        came = {True: "took it", False: "did not take it", None: "is still awaited or not needed any more"}
        ago = duration(spent_s(last["at"], None, now_ms) or 0)
        told.append(f"last awaited for {_job(last)} {ago} ago: {came[last.get('took')]}")
    if broken := each.get("broken_promises"):
        told.append(f"did not come for the last {broken} hold{'' if broken == 1 else 's'}")
    return told


def _job(named: Json) -> str:
    return "another job" if named.get("job") is None else f"job {named['job']}"


def _runner_cells(each: Json) -> list[Cell]:
    used = len(each.get("jobs") or [])
    state = each["state"]
    speed = each.get("speed")
    return [
        ("bold", one_line(each["name"])),
        ("bad", f"{state}, silent") if each.get("silent") else (_STATE.get(state, ""), state),
        ("dim", heard(each)),
        ("", f"{used}/{each['max_jobs']}" if each.get("max_jobs") is not None else str(used)),
        ("", mib(each.get("free_memory_mib"))),
        ("", "-" if each.get("free_cpus") is None else f"{each['free_cpus']} of {each.get('cpus')}"),
        ("", mib(each.get("free_disk_mib"))),
        ("", "-" if speed is None else f"{speed} (class {each.get('speed_class')})"),
        ("", one_line(" ".join(each.get("labels") or []))),
    ]


def heard(runner: Json) -> str:
    """When it last sent anything."""
    if runner.get("heard_s_ago") is None:
        return "never"
    return "waiting for work" if runner.get("waiting") else f"{duration(runner['heard_s_ago'])} ago"


def fleet_lines(fleet: Json, paint: Paint, now_ms: int) -> list[str]:
    """Each runner's headroom, then what capacity the queue lacks."""
    lines = runners_lines(fleet.get("runners") or [], paint, now_ms)
    shapes = fleet.get("lacking") or []
    lines += ["", paint("bold", "capacity that the queue lacks") if shapes else "the queue lacks no capacity"]
    for shape in shapes:
        told = [one_line(shape["project"]), one_line(shape["wants"])]
        told.append(paint("dim", f"oldest waits {duration(shape['oldest_s'])}"))
        lines += ["  ".join(told), *sentence("waiting", shape["headline"], paint)]
    return lines


def queue_lines(queue: Json, paint: Paint, now_ms: int) -> list[str]:
    """What waits, by reason, then the jobs in their turn, and why."""
    jobs = queue.get("jobs") or []
    if not jobs:
        return ["nothing waits"]
    lines: list[str] = []
    for group in queue.get("groups") or []:
        number = f"{group['jobs']} job{'' if group['jobs'] == 1 else 's'}"
        oldest = paint("dim", f"oldest waits {duration(group['oldest_s'])}")
        lines += [f"{paint('bold', number)}  {oldest}", *sentence("waiting", group["headline"], paint)]
    lines += [""] if lines else []
    cells: list[list[Cell]] = []
    for job in jobs:
        waited = spent_s(job.get("queued_at"), None, now_ms)
        cells.append(
            [
                ("dim", f"run {job['run']}"),
                ("bold", one_line(job["name"])),
                ("", one_line(job.get("project") or "")),
                ("dim", "" if waited is None else f"for {duration(waited)}"),
            ]
        )
    for job, row in zip(jobs, table(cells, paint), strict=True):
        lines.append(row)
        if job.get("waiting"):
            lines += sentence("waiting", job["waiting"]["headline"], paint)
    if queue.get("more"):
        lines.append(paint("dim", f"and {queue['more']} more"))
    return lines


def tokens_lines(tokens: list[Json], paint: Paint, now_ms: int) -> list[str]:
    """Tokens in a table, without their secrets."""
    rows: list[list[Cell]] = []
    for token in tokens:
        left = "never"
        if token.get("expires_at"):
            ahead = until_s(token["expires_at"], now_ms)
            left = f"in {duration(ahead)}" if ahead > 0 else f"{duration(-ahead)} ago"
        used = spent_s(token.get("used_at"), None, now_ms)
        rows.append(
            [
                ("bold", str(token["id"])),
                ("", token["kind"]),
                ("", scope_text(token.get("scope") or {})),
                ("dim", "never" if used is None else f"{duration(used)} ago"),
                ("dim", left),
                ("", one_line(token["name"])),
            ]
        )
    return table(rows, paint, head=("id", "kind", "for", "used", "expires", "name")) or ["no tokens"]


def scope_text(scope: Json) -> str:
    """Whose jobs: one project, one owner, or all."""
    if scope.get("project"):
        return one_line(scope["project"])
    return f"{one_line(scope['owner'])}/*" if scope.get("owner") else "all projects"
