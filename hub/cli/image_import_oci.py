"""An OCI layout, as a folder or an archive, made into one tree: its layers laid one over the other.

The invariant: no byte is believed before its digest was: the index names the manifest, the manifest
the config and the layers, each by hash and size. Format: OCI image specification 1.1 (layout, index,
manifest, layer). The layout itself is read as a tree first, so that archive and folder are one case.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hub.cli.errors import CliError, Usage
from hub.cli.image_import_arch import from_go
from hub.cli.image_import_bytes import PIECE, OnDisk, Span, Workspace
from hub.cli.image_import_tar import apply_layer
from hub.cli.image_import_tree import Kind, Limits, Tree

MAX_JSON = 4 << 20  # bytes of an index, a manifest or a config: what registries take
MAX_LAYERS = 500  # Docker stops at 127
MAX_NESTED = 4  # indexes within indexes; tools write one within the layout's
_DIGEST = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
_INDEXES = {
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattened:
    """The image's tree, and the architecture that its config tells (None: one without a name here)."""

    tree: Tree
    arch: str | None


def is_layout(tree: Tree) -> bool:
    """Whether a tree is an OCI layout rather than what an image holds."""
    return all(_file(tree, name) for name in ("oci-layout", "index.json"))


def is_docker_archive(tree: Tree) -> bool:
    """Whether a tree is what older `docker save` writes, which is no OCI layout."""
    return _file(tree, "manifest.json") and not tree.find("bin") and not tree.find("usr")


def flatten(
    layout: Tree, workspace: Workspace, limits: Limits, arch: str | None, tell: Callable[[str], None]
) -> Flattened:
    """The image of a layout; where it holds several, the one for `arch`.

    Raises CliError where something is missing, does not have its digest, or cannot be read; Usage where
    it is not clear which image is meant.
    """
    blobs = _Blobs(layout, workspace)
    manifest = _manifest(blobs, arch)
    layers = _list(manifest, "layers", layout.label)
    if len(layers) > MAX_LAYERS:
        raise CliError(f"{layout.label}: has {len(layers)} layers, over the bound of {MAX_LAYERS}")
    config = blobs.json(manifest.get("config"))
    tree = Tree(layout.label, limits)
    for number, layer in enumerate(layers, 1):
        tell(f"layer {number} of {len(layers)}")
        apply_layer(tree, workspace.spread(blobs.open(layer)))
    return Flattened(tree=tree, arch=_arch_of(config))


def _manifest(blobs: "_Blobs", arch: str | None) -> Json:
    """The one manifest that is meant, through nested indexes."""
    index = blobs.parse(blobs.file("index.json"), "index.json")
    found: list[tuple[Json, str | None]] = []
    todo = [(each, 1) for each in _list(index, "manifests", blobs.label)]
    while todo:
        entry, depth = todo.pop(0)
        if entry.get("mediaType") in _INDEXES:
            if depth > MAX_NESTED:
                raise CliError(f"{blobs.label}: has indexes more than {MAX_NESTED} deep")
            nested = _list(blobs.json(entry), "manifests", blobs.label)
            todo += [(each, depth + 1) for each in nested]
            continue
        platform = entry.get("platform")
        platform = platform if isinstance(platform, dict) else {}
        if platform.get("os") == "unknown":  # an attestation about another manifest, no image
            continue
        found.append((entry, _arch_of(platform)))
    if len(found) == 1:
        return blobs.json(found[0][0])
    matching = [entry for entry, each in found if arch is not None and each == arch]
    if len(matching) == 1:
        return blobs.json(matching[0])
    archs = ", ".join(sorted({each or "an unnamed one" for _, each in found})) or "none"
    raise Usage(f"{blobs.label}: holds {len(found)} images ({archs}): name one with --arch")


def _arch_of(platform: Json) -> str | None:
    return from_go(str(platform.get("architecture", "")), str(platform.get("variant", "")))


def _list(value: Json, key: str, label: str) -> list[Json]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise CliError(f"{label}: is no OCI layout: {key} is no list of descriptors")
    return found


def _file(tree: Tree, name: str) -> bool:
    node = tree.find(name)
    return node is not None and node.kind is Kind.FILE


class _Blobs:
    """What a layout holds, by digest."""

    def __init__(self, layout: Tree, workspace: Workspace) -> None:
        self.label = layout.label
        self._layout = layout
        self._workspace = workspace

    def json(self, descriptor: Any) -> Json:
        """A small blob's value."""
        span = self.open(descriptor)
        return self.parse(span, descriptor["digest"])

    def parse(self, span: Span, name: str) -> Json:
        """A file's value. Raises CliError where it is no object of JSON."""
        if span.size > MAX_JSON:
            raise CliError(f"{self.label}: {name} has {span.size} bytes, over the bound of {MAX_JSON}")
        try:
            value = json.loads(b"".join(span.blocks(PIECE)))
        except (ValueError, RecursionError) as error:
            raise CliError(f"{self.label}: {name} is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise CliError(f"{self.label}: {name} is no object of JSON")
        return value

    def open(self, descriptor: Any) -> Span:
        """A blob, whole and of its digest, or a CliError that says which it is not."""
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise CliError(f"{self.label}: names a blob by {str(digest)[:100]}, which is no digest")
        kind, _, value = digest.partition(":")
        span = self.file(f"blobs/{kind}/{value}")
        size = descriptor.get("size")
        if size != span.size:
            raise CliError(f"{self.label}: blob {digest} has {span.size} bytes; {size} were promised")
        hasher = hashlib.new(kind)
        for piece in span.blocks(PIECE):
            hasher.update(piece)
        if hasher.hexdigest() != value:
            raise CliError(f"{self.label}: blob {digest} is damaged: its bytes have another digest")
        return span

    def file(self, name: str) -> Span:
        """A file of the layout."""
        node = self._layout.find(name)
        if node is None or node.kind is not Kind.FILE:
            raise CliError(f"{self.label}: {name} is missing")
        content = node.content
        if isinstance(content, OnDisk):
            return self._workspace.open(content)
        if not isinstance(content, Span) or content.extents is not None:
            raise CliError(f"{self.label}: {name} is empty or has holes, as no blob has")
        return content
