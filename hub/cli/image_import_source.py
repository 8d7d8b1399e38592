"""From what a person names to the tree of an image: which kind of source it is, and who reads it.

The invariant: a source is known by what it holds, never by how its name ends.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hub.cli import image_import_arch as archs
from hub.cli import image_import_debian as debian
from hub.cli import image_import_oci as oci
from hub.cli.errors import CliError, Usage
from hub.cli.image_import_bytes import PIECE, Span, Workspace
from hub.cli.image_import_folder import read_folder
from hub.cli.image_import_tar import read_tar
from hub.cli.image_import_tree import Limits, Tree

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be read. `arch` None: the source says it."""

    source: str
    arch: str | None = None
    includes: Sequence[str] = ()
    epoch_s: int = 0
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The tree, its architecture (None: nothing tells it), and what a person should know, a sentence each."""

    tree: Tree
    arch: str | None
    notes: tuple[str, ...] = ()


def read(wanted: Wanted, workspace: Workspace, tell: Callable[[str], None]) -> Found:
    """Read a source of any kind. Raises Usage where there is no such source, CliError where it is bad."""
    tree = Tree(wanted.source, wanted.limits)
    notes = []
    if wanted.includes and not wanted.source.startswith(debian.PREFIX):
        raise Usage(f"--include is for {debian.PREFIX}SUITE only; {wanted.source} is what it is")
    path = Path(wanted.source)
    if path.is_dir():
        tell(f"reading the folder {wanted.source}")
        sockets = read_folder(tree, path)
        if sockets:
            notes.append(f"{sockets} sockets are left out: they belong to programs that run here")
    else:
        span = workspace.spread(_opened(wanted, workspace, tell))
        tell(f"reading {wanted.source}")
        read_tar(tree, span)
    arch = None
    if oci.is_layout(tree):
        flat = oci.flatten(tree, workspace, wanted.limits, wanted.arch, tell)
        tree, arch = flat.tree, flat.arch
    elif oci.is_docker_archive(tree):
        way = f"skopeo copy docker-archive:{wanted.source} oci-archive:FILE"
        raise CliError(f"{wanted.source}: is an archive of `docker save` without an OCI layout: {way}")
    tree.hollow(b"dev")  # a sandbox mounts its own
    arch = arch or archs.of_tree(tree)
    if wanted.arch is not None and arch not in (None, wanted.arch):
        notes.append(f"--arch says {wanted.arch}, the source {arch}: it is taken as {wanted.arch}")
    arch = wanted.arch or arch
    if arch is None:
        notes.append("nothing tells its architecture, so that any runner may be given it: see --arch")
    return Found(tree=tree, arch=arch, notes=tuple(notes))


def _opened(wanted: Wanted, workspace: Workspace, tell: Callable[[str], None]) -> Span:
    """The bytes of a source that is no folder."""
    source = wanted.source
    if source == STDIN:
        tell("reading the standard input")
        return _kept(sys.stdin.buffer, workspace, "the standard input")
    path = Path(source)
    if path.is_file():
        return workspace.open(path)
    if path.exists():
        raise Usage(f"{source}: is neither a file nor a folder")
    if not source.startswith(debian.PREFIX):
        raise Usage(f"{source}: there is no such file or folder (a Debian suite is debian:bookworm)")
    target = workspace.folder / "debian.tar"
    tell(f"building {source} with mmdebstrap, which takes a minute or two")
    debian.build(source, target, includes=wanted.includes, arch=wanted.arch, epoch_s=wanted.epoch_s)
    return workspace.open(target)


def _kept(file: BinaryIO, workspace: Workspace, label: str) -> Span:
    """What a pipe gives, in a file of the workspace: a tar is read more than once."""
    target = workspace.folder / "input"
    size = 0
    with target.open("wb") as kept:
        while piece := file.read(PIECE):
            size += len(piece)
            if size > workspace.max_bytes:
                raise CliError(f"{label}: has more than {workspace.max_bytes >> 20} MiB (see --max-mib)")
            kept.write(piece)
    return workspace.open(target)
