"""`shunter image …`: images on the hub: push, pull, import, list, names, rm, gc.

An image is one file that jobs start from, named by its BLAKE3. What it is made of, and how it travels,
is loaded only by the command that needs it.
"""

import re
from pathlib import Path
from typing import Annotated, Any

from hub.cli import image_import
from hub.cli.errors import Usage
from hub.cli.session import Session, now_ms, print_json, show
from hub.cli.words import Argument, Group, Option

Json = dict[str, Any]

app = Group("image", "Images: push, pull, import, list, names, name, unname, rm, gc.")

_HASH = re.compile(r"(?:cas://blake3/)?([0-9a-f]{64})")
_SHORT = re.compile(r"[0-9a-f]{8,63}")  # what lists show has 12 digits; fewer than 8 are a guess

Image = Annotated[
    str, Argument(metavar="NAME|HASH", help="A name, a hash, or the first 8 or more digits of a hash.")
]
ForOwner = Annotated[
    str | None, Option("--owner", metavar="OWNER", help="For this owner's projects alone [for all].")
]


@app.command("push")
def push(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="The image: one file, a squashfs say.")],
    name: Annotated[
        str | None, Option("--name", "-n", metavar="NAME", help="Let this name point to it.")
    ] = None,
    arch: Annotated[
        str | None, Option("--arch", metavar="ARCH", help="What it runs on: x86_64, aarch64 [any].")
    ] = None,
    owner: ForOwner = None,
) -> None:
    """Send an image to the hub: only the chunks that it lacks.

    May be started again after any failure, and goes on where it stood.
    """
    from hub.cli.image_progress import saving, size
    from hub.cli.image_push import Wish
    from hub.cli.image_push import push as send

    done = send(session.target(), Wish(file=file, name=name, arch=arch, owner=owner))
    if session.as_json:
        print_json(done.json())
        return
    whole = done.place["bytes"]
    named = f" ({done.name['name']})" if done.name else ""
    print(f"image {done.place['hash']}{named}, {size(whole)}")
    print(saving(done.sent_chunks, done.chunks, "sent", done.wire_bytes, whole))


@app.command("pull")
def pull(
    session: Session,
    image: Image,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Where to [./NAME.img].")
    ] = None,
    seed: Annotated[
        Path | None, Option("--seed", metavar="FILE", help="A similar file, whose chunks are not fetched.")
    ] = None,
) -> None:
    """Fetch an image into a file: only the chunks that are not at hand.

    What stands at the output already is used as a seed too. May be started again after any failure, and
    goes on where it stood.
    """
    from hub.cli.image_progress import saving, size
    from hub.cli.image_pull import pull as fetch

    found = resolve(session, image)
    if output is None:
        stem = image if _HASH.fullmatch(image) is None else found[:12]
        output = Path(f"{stem}.img")
    done = fetch(session.target(), found, output, seed)
    if session.as_json:
        print_json(done.json())
        return
    whole, took = done.manifest.bytes, done.fetched
    print(f"image {done.hash} is {output}, {size(whole)}")
    print(saving(took.fetched_chunks, took.chunks, "fetched", took.wire_bytes, whole))


app.add("import", image_import.run)


@app.command("list")
def listing(session: Session) -> None:
    """List images: names, sizes, who holds them."""
    from hub.cli.show_images import images_lines

    found = session.client().get("/images").json()
    show(session, found, lambda: images_lines(found, session.paint, now_ms()))


@app.command("names")
def names(session: Session) -> None:
    """List names: the image each points to, and those before."""
    from hub.cli.show_images import names_lines

    found = session.client().get("/images/names").json()
    show(session, found, lambda: names_lines(found.get("names") or [], session.paint, now_ms()))


@app.command("name")
def name_it(
    session: Session,
    name: Annotated[str, Argument(metavar="NAME", help="The name.")],
    image: Image,
    owner: ForOwner = None,
) -> None:
    """Let a name point to an image that the hub holds; runs already submitted keep theirs."""
    from hub.cli.client import segment

    body = {"hash": resolve(session, image), "owner": owner}
    found = session.client().ask("PUT", f"/images/names/{segment(name)}", body=body, repeat=True).json()
    show(session, found, lambda: [f"{found['name']} is image {found['hash'][:12]}"])


@app.command("unname")
def unname(
    session: Session,
    name: Annotated[str, Argument(metavar="NAME", help="The name.")],
    owner: ForOwner = None,
) -> None:
    """Let a name point to nothing any more; the image stays until a sweep."""
    from hub.cli.client import segment

    reply = session.client().ask("DELETE", f"/images/names/{segment(name)}", {"owner": owner})
    show(session, reply.json() if reply.body else {}, lambda: [f"{name} is no image's name any more"])


@app.command("rm")
def remove(session: Session, image: Image) -> None:
    """Remove an image that has no name and that no job needs."""
    found = resolve(session, image)
    reply = session.client().ask("DELETE", f"/images/{found}")
    show(session, reply.json() if reply.body else {}, lambda: [f"image {found[:12]} is removed"])


@app.command("gc")
def gc(
    session: Session,
    dry_run: Annotated[bool, Option("--dry-run", help="Only tell what it would remove.")] = False,
) -> None:
    """Remove what no name and no job needs."""
    from hub.cli.show_images import gc_lines

    query = {"dry_run": "true" if dry_run else None}
    found = session.client().ask("POST", "/images/gc", query).json()
    show(session, found, lambda: gc_lines(found, session.paint, dry_run=dry_run))


def resolve(session: Session, image: str) -> str:
    """The whole hash of an image told by its name, its hash or the beginning of one. Raises CliError."""
    if whole := _HASH.fullmatch(image):
        return whole[1]
    client = session.client()
    known: list[Json] = client.get("/images/names").json().get("names") or []
    found = {each["hash"] for each in known if each["name"] == image}
    if not found and _SHORT.fullmatch(image):
        images = client.get("/images").json().get("images") or []
        found = {each["hash"] for each in images if each["hash"].startswith(image)}
    if len(found) > 1:
        raise Usage(f"{image} means {len(found)} images: give the hash (shunter image list)")
    if not found:
        raise Usage(f"there is no image {image}{_nearest(image, known)}: shunter image list")
    return str(found.pop())


def _nearest(word: str, known: list[Json]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, [str(each["name"]) for each in known], n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
