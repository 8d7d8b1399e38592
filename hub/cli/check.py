"""`shunter admin check`: every chunk at rest is read, and whatever is damaged is told.

Invariant: the exit status is 0 only if the hub says that everything is sound; a check that did not come
to its end is a failure.
"""

import json
from itertools import chain
from typing import Any

from hub.cli.errors import CliError
from hub.cli.session import Session, print_json
from hub.cli.terminal import Paint
from hub.cli.words import Group

Json = dict[str, Any]

SHOWN = 20  # damaged chunks that are listed; --json has up to a thousand

app = Group("admin", "The hub's own upkeep: check.")


@app.command("check")
def check(session: Session) -> None:
    """Read every image at rest; exit status 1 while anything is damaged.

    A damaged chunk counts as missing: push an image that has it, and it is healed.
    """
    from hub.cli.client import NoStream

    try:
        report = _followed(session)
    except NoStream:
        raise CliError("this hub cannot check its images: it is older than this command") from None
    if report is None:
        raise CliError("the check ended before it was done: is the hub being stopped?")
    if session.as_json:
        print_json(report)
    else:
        print("\n".join(lines(report, session.paint)))
    if not report.get("sound"):
        raise SystemExit(1)


def _followed(session: Session) -> Json | None:
    """The report, once the hub has read everything; how far it is on the way. None: it never came."""
    from hub.cli.image_progress import progress

    events = session.client().events("/images/check")
    first = next(events, None)
    if first is None or first.name != "progress":  # nothing is at rest
        return json.loads(first.data) if first is not None and first.name == "report" else None
    report: Json | None = None
    told = json.loads(first.data)
    done = 0
    with progress("checking", told["of_bytes"]) as advance:
        for event in chain([first], events):
            if event.name == "progress":
                far = json.loads(event.data)["bytes"]
                advance(max(0, far - done))  # less than before: the line broke, and the check began anew
                done = max(done, far)
            elif event.name == "report":
                report = json.loads(event.data)
    return report


def lines(report: Json, paint: Paint) -> list[str]:
    """The report as a person reads it."""
    from hub.cli.image_progress import size

    said = [f"{report['chunks']} chunks of {report['images']} images read, {size(report['bytes'])}"]
    if orphans := report.get("orphan_packs"):
        said.append(f"{orphans} files belong to nothing: shunter image gc removes them")
    if report.get("sound"):
        return [*said, paint("good", "everything is sound")]
    chunks = report.get("damaged_chunks") or []
    for chunk in chunks[:SHOWN]:
        images = ", ".join(one[:12] for one in chunk.get("images") or []) or "no image"
        said.append(f"chunk {chunk['hash'][:12]} of {images}: {chunk['reason']}")
    if more := len(chunks) - SHOWN + report.get("more_damaged", 0):
        said += [f"and {more} more chunks"] if more > 0 else []
    damaged = report.get("damaged_images") or []
    said += [paint("bad", f"image {one} is damaged: push it again") for one in damaged]
    return said if damaged else [*said, paint("bad", "no image lists them: shunter image gc removes them")]
