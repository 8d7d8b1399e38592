"""Images, their names and what a sweep takes, as lines of text; pure, as `show` is."""

from typing import Any

from hub.cli.image_progress import size
from hub.cli.show import duration, spent_s, table
from hub.cli.terminal import Paint, one_line

Json = dict[str, Any]

SHORT = 12  # digits of a hash that tell images apart
MAX_PAST = 5  # earlier images of a name that a list shows


def images_lines(listing: Json, paint: Paint, now_ms: int) -> list[str]:
    """Images in a table, the newest first, each damage on a line of its own."""
    images = listing.get("images") or []
    head = ("image", "names", "size", "shared", "arch", "for", "pushed", "used", "held by")
    rows = table([_image_cells(each, now_ms) for each in images], paint, head=head)
    if not rows:
        return ["no images: shunter image push FILE --name NAME"]
    lines = [rows[0]]
    for each, row in zip(images, rows[1:], strict=True):
        lines.append(row)
        if each.get("damaged"):
            lines.append(
                f"  {paint('bad', 'damaged')} {each['damaged']} of its chunks are lost: push it again"
            )
    if listing.get("more"):
        lines.append(paint("dim", f"and {listing['more']} more"))
    return lines


def _image_cells(each: Json, now_ms: int) -> list[tuple[str, str]]:
    runners = [one_line(name) for name in each.get("held_by") or []]
    if each.get("held_by_others"):
        runners.append(f"{each['held_by_others']} more")
    return [
        ("bold", each["hash"][:SHORT]),
        ("", one_line(" ".join(each.get("names") or [])) or "-"),
        ("", size(each["bytes"])),
        ("dim", f"{100 * each.get('shared_bytes', 0) // max(1, each['bytes'])} %"),
        ("", one_line(each.get("arch") or "-")),
        ("", one_line(each.get("owner") or "all")),
        ("dim", _ago(each.get("created_at"), now_ms)),
        ("dim", _ago(each.get("used_at"), now_ms)),
        ("", ", ".join(runners) or "-"),
    ]


def names_lines(names: list[Json], paint: Paint, now_ms: int) -> list[str]:
    """Names with the image each points to, and what it pointed to before."""
    rows: list[list[tuple[str, str]]] = []
    for each in names:
        past = [one.get("hash", "")[:SHORT] for one in (each.get("history") or [])[1 : 1 + MAX_PAST]]
        rows.append(
            [
                ("bold", one_line(each["name"])),
                ("", each["hash"][:SHORT]),
                ("", one_line(each.get("owner") or "all")),
                ("dim", _ago(each.get("updated_at"), now_ms)),
                ("dim", ", ".join(past)),
            ]
        )
    head = ("name", "image", "for", "since", "before")
    return table(rows, paint, head=head) or ["no names: shunter image push FILE --name NAME"]


def gc_lines(report: Json, paint: Paint, *, dry_run: bool) -> list[str]:
    """What a sweep takes, or took."""
    verb = "would remove" if dry_run else "removed"
    lines = []
    for each in report.get("images") or []:
        reason = paint("dim", one_line(each.get("reason") or ""))
        lines.append(f"{verb} image {each['hash'][:SHORT]}  {size(each['bytes'])}  {reason}")
    if report.get("more_images"):
        lines.append(paint("dim", f"and {report['more_images']} more images"))
    frees = "would free" if dry_run else "freed"
    chunks = report.get("chunks", 0)
    lines.append(f"{verb} {chunks:,} chunks, {frees} {size(report.get('bytes', 0))}")
    kept = [f"{report.get('kept_images', 0)} images named or needed"]
    if report.get("kept_chunks"):
        kept.append(f"{report['kept_chunks']:,} chunks of pushes that may be under way")
    return [*lines, paint("dim", "kept " + ", ".join(kept))]


def _ago(time: str | None, now_ms: int) -> str:
    spent = spent_s(time, None, now_ms)
    return "never" if spent is None else f"{duration(spent)} ago"
