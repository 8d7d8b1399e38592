"""`shunter replay`: a hub's decisions of late judged again, by the same rules, from scratch.

Reads a journal from a hub or a file (its format stands in hub/placement/journal.py), and asks the rules
at each decision. They are loaded inside the functions, so that nothing else pays for them. No rule
stands here, and no sentence about a decision: those come from hub/placement/replay.py.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hub.cli.errors import CliError, Unreachable, Usage
from hub.cli.session import Session, show
from hub.cli.simulate import MAX_HOLD_S
from hub.cli.terminal import one_line
from hub.cli.words import Argument, Option

if TYPE_CHECKING:
    from hub.placement.journal import Journal
    from hub.placement.replay import Judged

SHOWN = 20  # decisions that are told one by one; --json tells all
MAX_LAST = 2_000_000  # no journal has more
MAX_LINE_BYTES = 64 * 2**20  # the longest line is a hub's images, of which half a million fit

Row = dict[str, Any]


def replay(
    session: Session,
    journal: Annotated[
        str | None, Argument(metavar="FILE", help="A journal file [asked of the hub, as an admin].")
    ] = None,
    save: Annotated[
        Path | None, Option("--save", metavar="FILE", help="Keep the hub's journal in this file.")
    ] = None,
    hold: Annotated[
        int | None,
        Option(
            "--hold",
            metavar="S",
            help="Seconds to hold a job [as the hub did].",
            low=0,
            high=MAX_HOLD_S,
        ),
    ] = None,
    last: Annotated[
        int | None,
        Option("--last", metavar="N", help="Only the last N decisions [all].", low=1, high=MAX_LAST),
    ] = None,
    trace: Annotated[
        Path | None,
        Option("--trace", metavar="FILE", help="Write what the fleet was given to do, for simulate."),
    ] = None,
) -> None:
    """Judge a hub's decisions again, from scratch.

    Under the settings they were made under nothing may differ: exit status 1 where something does. With
    --hold, tell what another hold would have changed: each decision on the state that was recorded, one
    step; what would have come of it is for `shunter simulate` on the trace that --trace writes. With
    --trace nothing is judged.
    """
    if journal is not None and save is not None:
        raise Usage("--save keeps what a hub says; the journal is in a file already")
    if trace is not None and (hold is not None or last is not None):
        raise Usage("--trace judges nothing: leave --hold and --last out")
    found = _read(session, journal, save)
    if trace is not None:
        _write_trace(session, found, trace)
        return
    said = summary(found, hold, last)
    show(session, said, lambda: [one_line(line) for line in told(said)])
    if hold is None and said["differences"]:
        raise CliError("decisions that cannot be explained: please report them, with the journal (--save)")


def summary(journal: "Journal", hold_s: int | None, last: int | None) -> Row:
    """What a replay comes to. Times are in ms since 1970; `hold_ms` is the one it was judged under."""
    from hub.placement.replay import decisions, held_for, replay

    settings = journal.settings if hold_s is None else held_for(journal.settings, 1000 * hold_s)
    judged = total = 0
    rows: list[Row] = []
    total = decisions(journal)
    for one in replay(journal, settings, last=last):
        judged += 1
        if not one.same:
            rows.append(_row(one))
    return {
        "begin_ms": journal.begin_ms,
        "end_ms": max((entry.at_ms for entry in journal.entries), default=journal.begin_ms),
        "decisions": total,
        "dropped": journal.dropped,
        "judged": judged,
        "recorded_hold_ms": journal.settings.hold_ms,
        "hold_ms": settings.hold_ms,
        "other_settings": hold_s is not None,
        "differences": rows,
    }


def _row(one: "Judged") -> Row:
    from hub.placement.codec import write
    from hub.placement.journal import ClaimDecided
    from hub.placement.replay import differences

    decided = one.decided
    is_claim = isinstance(decided, ClaimDecided)
    return {
        "at_ms": one.at_ms,
        "runner": decided.runner if isinstance(decided, ClaimDecided) else None,
        "job": None if isinstance(decided, ClaimDecided) else decided.job,
        "asked": "claim" if is_claim else "ready",
        "decided": write(decided.plan),
        "now": None if one.now is None else write(one.now),
        "text": list(differences(one)),
    }


def told(said: Row) -> list[str]:
    """The summary in lines."""
    minutes, seconds = divmod((said["end_ms"] - said["begin_ms"]) // 1000, 60)
    head = f"{said['decisions']} decisions in {minutes} min {seconds} s since {_time(said['begin_ms'])}"
    if said["dropped"]:
        head += f"; {said['dropped']} before that are not kept"
    rows: list[Row] = said["differences"]
    if said["other_settings"]:
        what = f"with a hold of {_s(said['hold_ms'])} instead of {_s(said['recorded_hold_ms'])}: "
        what += f"{len(rows)} of {said['judged']} decisions would change"
    elif rows:
        what = f"judged again: {len(rows)} of {said['judged']} decisions differ"
    else:
        what = f"judged again, {said['judged']} of them: no difference"
    lines = [head, what]
    for row in rows[:SHOWN]:
        asked = f"claim of {row['runner']}" if row["asked"] == "claim" else f"job {row['job']} became ready"
        lines += [f"  {_time(row['at_ms'])}  {asked}", *(f"    {text}" for text in row["text"])]
    if len(rows) > SHOWN:
        lines.append(f"  and {len(rows) - SHOWN} more (--json tells all)")
    if said["other_settings"] and rows:
        lines.append("each is judged on the state that was recorded, one step: what would have come of it,")
        lines.append("`shunter simulate` tells on the trace that --trace FILE writes")
    return lines


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"  # of a file: any number


def _s(ms: int) -> str:
    return f"{ms / 1000:g} s"


# -- where it comes from, and goes ----------------------------------------------------------------


def _read(session: Session, file: str | None, save: Path | None) -> "Journal":
    """The journal in the file, else the hub's. Raises Usage for a file that says nothing valid."""
    if file is not None:
        return _read_file(Path(file))
    pieces = session.client().pieces("/journal", {})
    if save is None:
        return _parse(_lines(pieces), "the hub's journal")
    part = save.with_name(save.name + ".part")
    try:
        with part.open("wb") as kept:
            for piece in pieces:
                kept.write(piece)
        part.replace(save)
    except OSError as error:
        raise CliError(f"{save}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return _read_file(save)


def _read_file(path: Path) -> "Journal":
    try:
        with path.open("rb") as file:
            return _parse(_lines(iter(lambda: file.read(65536), b"")), str(path))
    except OSError as error:
        raise Usage(f"{path}: {error.strerror}") from None


def _parse(lines: Iterable[str], name: str) -> "Journal":
    from hub.placement.journal import JournalError, read_lines

    try:
        return read_lines(lines)
    except JournalError as error:
        raise Usage(f"{name}: {error}") from None
    except UnicodeDecodeError:
        raise Usage(f"{name}: is not UTF-8 text") from None


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines in pieces of any length; the last may lack its end."""
    rest: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join((*rest, line)).decode()
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > MAX_LINE_BYTES:
            raise Unreachable("a line of the journal passed every bound: does it come from a hub?")
    if size:
        yield b"".join(rest).decode()


def _write_trace(session: Session, journal: "Journal", path: Path) -> None:
    from hub.placement.journal import JournalError
    from hub.placement.recorded import recorded
    from hub.placement.trace import write

    try:
        found = recorded(journal)
    except JournalError as error:
        raise CliError(str(error)) from None
    try:
        path.write_text("".join(f"{line}\n" for line in write(found.trace)), encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
    runners, jobs = len(found.trace.runners), len(found.trace.jobs)
    said = {
        "runners": runners,
        "jobs": jobs,
        "measured": found.measured,
        "usual": found.usual,
        "left_out": found.left_out,
    }
    lines = [
        f"{path}: {jobs} jobs on {runners} runners",
        f"{found.measured} take as long as they did, {found.usual} as long as they usually do; "
        f"{found.left_out} left out (how long they take is not known)",
    ]
    show(session, said, lambda: [one_line(line) for line in lines])
