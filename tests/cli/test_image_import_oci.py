"""OCI layouts and archives: layers, whiteouts, digests, and which of several images is meant."""

import json
from pathlib import Path

import pytest

from hub.cli.errors import CliError, Usage
from hub.cli.image_import_arch import from_go, of_elf, to_debian
from hub.cli.image_import_tree import Limits
from tests.cli.image_sources import (
    PACKED,
    Blobs,
    archive,
    content,
    folder,
    hard,
    imported,
    imported_tar,
    layout,
    layout_files,
    link,
    listing,
    manifest,
    member,
    names,
    needs_squashfs,
    tar,
    write_folder,
)

INDEX = "application/vnd.oci.image.index.v1+json"
BASE = tar(
    [
        folder("bin"),
        member("bin/sh", b"sh", mode=0o755),
        folder("etc"),
        member("etc/a", b"a"),
        member("etc/b", b"b"),
        folder("opt/old", mode=0o700),
        member("opt/old/deep/x", b"x"),
        link("lib", "usr/lib"),
        folder("usr/lib"),
    ]
)


def image_of(tmp_path: Path, files: dict[str, bytes], **words: object) -> Path:
    """The image of an archive with these files."""
    source = tmp_path / "x.oci"
    source.write_bytes(archive(files))
    return imported(source, tmp_path / "x.sqfs", **words).file


def layered(tmp_path: Path, *layers: bytes) -> Path:
    return image_of(tmp_path, layout(*layers))


@needs_squashfs
def test_later_layers_lie_over_earlier_ones(tmp_path: Path) -> None:
    image = layered(
        tmp_path,
        BASE,
        tar([member("etc/a", b"new"), member("lib/libc", b"through a link"), hard("bin/dash", "bin/sh")]),
        PACKED["zst"](tar([folder("etc", mode=0o711)])),
    )
    assert content(image, "etc/a") == b"new"
    assert content(image, "etc/b") == b"b"
    assert content(image, "usr/lib/libc") == b"through a link"
    assert content(image, "bin/dash") == b"sh"
    assert listing(image)["etc"].mode == "drwx--x--x"


@needs_squashfs
def test_a_whiteout_takes_away_what_lies_below_and_nothing_of_its_own_layer(tmp_path: Path) -> None:
    image = layered(
        tmp_path,
        BASE,
        tar(
            [
                member("etc/.wh.a"),
                member(".wh.opt"),
                member("etc/.wh.none"),
                member("none/.wh.x"),
                member("lib/y"),
            ]
        ),
        tar([member("etc/b", b"own"), member("etc/.wh.b"), member(".wh..wh.plnk/9.9"), member(".wh.lib")]),
    )
    assert names(image) == {"bin", "bin/sh", "etc", "etc/b", "usr", "usr/lib", "usr/lib/y"}
    assert content(image, "etc/b") == b"own"


@needs_squashfs
@pytest.mark.parametrize("first", [True, False])
def test_an_opaque_folder_hides_what_lies_below_wherever_its_mark_stands(first: bool, tmp_path: Path) -> None:
    mark, own = member("opt/old/.wh..wh..opq"), member("opt/old/new", b"n")
    image = layered(
        tmp_path, BASE, tar([folder("opt/old", mode=0o755), *([mark, own] if first else [own, mark])])
    )
    assert {name for name in names(image) if name.startswith("opt")} == {"opt", "opt/old", "opt/old/new"}
    assert listing(image)["opt/old"].mode == "drwxr-xr-x"


@needs_squashfs
def test_a_file_gives_way_to_a_folder_and_a_folder_to_a_file(tmp_path: Path) -> None:
    over = tar([folder("etc/a"), member("etc/a/x"), member("opt", b"file"), folder("lib")])
    image = layered(tmp_path, BASE, over)
    assert names(image) == {
        "bin",
        "bin/sh",
        "etc",
        "etc/a",
        "etc/a/x",
        "etc/b",
        "opt",
        "lib",
        "usr",
        "usr/lib",
    }
    assert listing(image)["lib"].mode[0] == "d"


def test_archive_folder_and_the_flat_tar_give_one_hash(tmp_path: Path) -> None:
    top = tar([member("etc/.wh.a"), member("etc/c", b"c", uid=7)])
    files = layout(PACKED["gz"](BASE), top)
    from_folder = imported(write_folder(tmp_path / "layout", files), tmp_path / "a.sqfs")
    (tmp_path / "x.tar.zst").write_bytes(PACKED["zst"](archive(dict(reversed(files.items())))))
    from_archive = imported(tmp_path / "x.tar.zst", tmp_path / "b.sqfs")
    flat = imported_tar(
        tmp_path,
        [
            *[folder("bin"), member("bin/sh", b"sh", mode=0o755), folder("etc"), member("etc/b", b"b")],
            *[member("etc/c", b"c", uid=7), folder("opt/old", mode=0o700), member("opt/old/deep/x", b"x")],
            *[link("lib", "usr/lib"), folder("usr/lib")],
        ],
    )
    assert from_folder.hash == from_archive.hash == flat.hash
    assert (from_archive.arch, flat.arch) == ("x86_64", None)


def test_of_several_images_the_one_for_the_architecture_is_taken(tmp_path: Path) -> None:
    blobs: Blobs = {}
    found = [
        manifest(blobs, [tar([member(arch)])], arch=arch, platform={"os": "linux", "architecture": arch})
        for arch in ("amd64", "arm64")
    ]
    attestation = manifest(blobs, [], platform={"os": "unknown", "architecture": "unknown"})
    inner = json.dumps({"manifests": [*found, attestation]}).encode()
    from tests.cli.image_sources import blob

    files = layout_files(blobs, [blob(blobs, inner, mediaType=INDEX)])
    files |= {f"blobs/{digest.replace(':', '/')}": data for digest, data in blobs.items()}
    source = write_folder(tmp_path / "layout", files)
    arm = imported(source, tmp_path / "x.sqfs", arch="aarch64")
    assert (arm.arch, arm.notes) == ("aarch64", ())
    assert arm.hash == imported_tar(tmp_path, [member("arm64")]).hash
    with pytest.raises(Usage, match=r"holds 2 images \(aarch64, x86_64\): name one with --arch"):
        imported(source, tmp_path / "x.sqfs")
    with pytest.raises(Usage, match="name one with --arch"):
        imported(source, tmp_path / "x.sqfs", arch="riscv64")


def broken(kind: str) -> dict[str, bytes]:
    """A layout with one fault."""
    blobs: Blobs = {}
    layer = tar([member("a", b"a" * 2000)])
    only = manifest(blobs, [layer])
    files = layout_files(blobs, [only])
    (name,) = [name for name, data in files.items() if data == layer]
    if kind == "missing":
        del files[name]
    elif kind == "digest":
        files[name] = layer[:600] + b"b" + layer[601:]
    elif kind == "size":
        files[name] = layer + bytes(512)
    elif kind == "layer":
        files = layout(b"x" * 2000)
    elif kind == "cut":
        files = layout(PACKED["gz"](layer)[:-9])
    elif kind == "json":
        files["index.json"] = b"{"
    elif kind == "shape":
        files["index.json"] = b'{"manifests": [1]}'
    elif kind == "path":
        files["index.json"] = json.dumps(
            {"manifests": [{"digest": "sha256:../../etc/passwd", "size": 1}]}
        ).encode()
    elif kind == "none":
        files["index.json"] = b'{"manifests": []}'
    elif kind == "nested":
        files["index.json"] = json.dumps({"manifests": [{**only, "mediaType": INDEX}]}).encode()
    elif kind == "large":
        files["index.json"] = b" " * (5 << 20)
    elif kind == "whiteout":
        files = layout(tar([member("etc/.wh..")]))
    elif kind == "climbing":
        files = layout(tar([member("../.wh.x")]))
    return files


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "is missing"),
        ("digest", "is damaged: its bytes have another digest"),
        ("size", "bytes; 3584 were promised"),
        ("layer", "no tar, or a damaged one"),
        ("cut", "is cut off"),
        ("json", "index.json is no JSON"),
        ("shape", "manifests is no list of descriptors"),
        ("path", "which is no digest"),
        ("none", "holds 0 images"),
        ("nested", "manifests is no list of descriptors"),
        ("large", "over the bound"),
        ("whiteout", "is a whiteout of nothing"),
        ("climbing", "leads out of the tree"),
    ],
)
@pytest.mark.parametrize("as_folder", [True, False])
def test_a_broken_layout_is_told_and_nothing_is_left(
    kind: str, words: str, as_folder: bool, tmp_path: Path
) -> None:
    files = broken(kind)
    source = tmp_path / "source"
    if as_folder:
        write_folder(source, files)
    else:
        source.write_bytes(archive(files))
    with pytest.raises(CliError) as told:
        imported(source, tmp_path / "x.sqfs")
    assert words in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "source"]


def test_layers_together_keep_to_the_limits(tmp_path: Path) -> None:
    layers = [tar([member(f"{layer}-{number}") for number in range(10)]) for layer in range(3)]
    with pytest.raises(CliError, match="--max-members"):
        image_of(tmp_path, layout(*layers), limits=Limits(members=25))
    bomb = layout(PACKED["gz"](bytes(50 << 20)))
    with pytest.raises(CliError, match="spreads to more than 2 MiB"):
        image_of(tmp_path, bomb, limits=Limits(bytes=2 << 20))


def test_an_old_archive_of_docker_save_is_told_with_the_way_out(tmp_path: Path) -> None:
    source = tmp_path / "x.tar"
    source.write_bytes(archive({"manifest.json": b"[]", "0f/layer.tar": BASE}))
    with pytest.raises(CliError, match="skopeo copy docker-archive:"):
        imported(source, tmp_path / "x.sqfs")


# -- which architecture ---------------------------------------------------------------------------


def elf(machine: int, bits: int = 2, order: int = 1) -> bytes:
    number = machine.to_bytes(2, "little" if order == 1 else "big")
    return b"\x7fELF" + bytes([bits, order, 1]) + bytes(9) + b"\2\0" + number + bytes(100)


@pytest.mark.parametrize(
    ("head", "arch"),
    [
        (elf(62), "x86_64"),
        (elf(183), "aarch64"),
        (elf(3, 1), "i686"),
        (elf(40, 1), "armv7l"),
        (elf(243), "riscv64"),
        (elf(22, 2, 2), "s390x"),
        (elf(62, 1), None),  # x32: its programs want another system
        (elf(9999), None),
        (elf(62)[:19], None),
        (b"#!/bin/busybox sh\n" * 9, None),
    ],
)
def test_a_program_tells_what_it_was_built_for(head: bytes, arch: str | None) -> None:
    assert of_elf(head) == arch


def test_the_shell_is_found_through_links_and_dpkg_is_asked_first(tmp_path: Path) -> None:
    shell = [link("bin", "usr/bin"), link("usr/bin/sh", "/bin/dash"), member("usr/bin/dash", elf(183))]
    assert imported_tar(tmp_path, shell).arch == "aarch64"
    dpkg = member("var/lib/dpkg/arch", b"amd64\ni386\n")
    assert imported_tar(tmp_path, [*shell, dpkg]).arch == "x86_64"
    script = [member("bin/sh", b"#!/x\n"), member("bin/true", elf(62))]
    assert imported_tar(tmp_path, script).arch == "x86_64"


def test_an_architecture_that_is_given_outranks_what_the_source_says(tmp_path: Path) -> None:
    made = imported_tar(tmp_path, [member("bin/sh", elf(62))], arch="aarch64")
    assert made.arch == "aarch64"
    assert made.notes == ("--arch says aarch64, the source x86_64: it is taken as aarch64",)
    unknown = imported_tar(tmp_path, [link("bin/sh", "sh"), member("bin/true")])
    assert unknown.arch is None
    assert "nothing tells its architecture" in unknown.notes[0]


def test_variants_and_unknown_words_are_told_apart() -> None:
    assert (from_go("arm", "v6"), from_go("arm", "v7"), from_go("arm64", "v8")) == (
        "armv6l",
        "armv7l",
        "aarch64",
    )
    assert (from_go("wasm"), to_debian("x86_64"), to_debian("vax")) == (None, "amd64", None)
