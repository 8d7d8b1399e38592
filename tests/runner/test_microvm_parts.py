"""What a guest is made of, without one: its kernel, first files and command line, and who may have it."""

import contextlib
import gzip
import lzma
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hub.wire.claim import AssignedJob
from runner import config, tiers
from runner.sandbox import cgroups, microvm_check, microvm_initrd, microvm_kernel, microvm_kvm, microvm_lz4
from runner.sandbox.base import SandboxBroken
from runner.sandbox.microvm import Means, MicrovmSandbox
from runner.sandbox.microvm_kernel import Kernel
from runner.sandbox.microvm_line import Boot, words
from tests.runner import boxes

PROGRAM = b"\x7fELF" + bytes(range(256)) * 40 + b"a" * 1000


def image(packed: bytes) -> bytes:
    """A kernel image as boot.rst lays it out, with two sectors of set-up."""
    made = bytearray(3 * 512)
    made[0x1F1] = 2
    struct.pack_into("<II", made, 0x248, 16, len(packed))
    return bytes(made + bytes(16) + packed)


def lz4(data: bytes) -> bytes:
    """An LZ4 legacy frame: a naive packer that finds repeats of what stood up to 255 bytes before."""

    def length(size: int) -> bytes:
        return b"" if size < 15 else bytes([255] * ((size - 15) // 255) + [(size - 15) % 255])

    out, literal, at = bytearray(), bytearray(), 0
    while at < len(data):
        best, back = 0, 0
        for distance in range(1, min(at, 40) + 1):
            size = 0
            while at + size < len(data) - 5 and data[at + size] == data[at + size - distance]:
                size += 1
            if size > best:
                best, back = size, distance
        if best < 4:
            literal.append(data[at])
            at += 1
            continue
        out.append(min(len(literal), 15) << 4 | min(best - 4, 15))
        out += length(len(literal)) + literal + struct.pack("<H", back) + length(best - 4)
        literal.clear()
        at += best
    out.append(min(len(literal), 15) << 4)
    out += length(len(literal)) + literal
    return microvm_lz4.MAGIC + struct.pack("<I", len(out)) + bytes(out)


@given(st.lists(st.sampled_from([b"abc", b"abcabc", b"x" * 300, b"\0", b"qwertyuiop"]), max_size=12))
def test_lz4_gives_back_what_was_packed(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert microvm_lz4.unpack(lz4(data), len(data)) == data


@given(st.binary(max_size=200))
def test_lz4_that_is_none_is_refused_or_bounded(junk: bytes) -> None:
    frame = microvm_lz4.MAGIC + struct.pack("<I", len(junk)) + junk
    with contextlib.suppress(microvm_lz4.BadFrame):
        assert len(microvm_lz4.unpack(frame, 1000)) <= 1000 + len(junk)


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(PROGRAM),
        lzma.compress(PROGRAM) + struct.pack("<I", len(PROGRAM)),
        zstandard.compress(PROGRAM) + struct.pack("<I", len(PROGRAM)),
        lz4(PROGRAM) + struct.pack("<I", len(PROGRAM)),
    ],
    ids=["gzip", "xz", "zstd", "lz4"],
)
def test_a_kernel_is_unpacked_however_it_is_packed(packed: bytes) -> None:
    assert microvm_kernel.plain(image(packed)) == PROGRAM


@pytest.mark.parametrize("bad", [b"", b"MZ", image(b"????"), image(gzip.compress(b"no program"))])
def test_what_is_no_kernel_is_refused_with_words(bad: bytes) -> None:
    with pytest.raises(SandboxBroken, match="kernel"):
        microvm_kernel.plain(bad)


def made_modules(folder: Path) -> Path:
    """Modules of which two depend on others, packed in three ways."""
    needs = {"ext4": "jbd2,mbcache", "jbd2": "crc", "virtio_blk": "", "virtio_net": "failover"}
    needs |= {"crc": "", "mbcache": "", "failover": ""}
    for name, depends in needs.items():
        data = b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0"
        path = folder / "kernel/fs" / f"{name}.ko"
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "ext4":
            path.with_suffix(".ko.xz").write_bytes(lzma.compress(data))
        elif name == "jbd2":
            path.with_suffix(".ko.zst").write_bytes(zstandard.compress(data))
        else:
            path.write_bytes(data)
    return folder


def entries(archive: bytes) -> dict[str, bytes]:
    """What is in a newc archive."""
    found: dict[str, bytes] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        size, named = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + named - 1].decode()
        data = at + (110 + named + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = archive[data : data + size]
        at = data + (size + 3) // 4 * 4


def test_the_first_files_hold_each_module_after_those_it_needs(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF static")
    archive = microvm_initrd.build(made_modules(tmp_path / "m"), busybox)
    found = entries(archive)
    assert found["init"] == microvm_initrd.INIT.read_bytes()
    assert found["bin/busybox"] == b"\x7fELF static"
    assert found["bin/sh"] == b"busybox"
    first = [name.partition("-")[2] for name in found if name.startswith("lib/0")]
    assert first == ["virtio_blk.ko", "crc.ko", "jbd2.ko", "mbcache.ko", "ext4.ko"]
    network = [name.partition("-")[2] for name in found if name.startswith("lib/network/")]
    assert network == ["failover.ko", "virtio_net.ko"]
    assert found["lib/04-ext4.ko"].startswith(b"\x7fELF\0license")
    assert microvm_initrd.build(tmp_path / "m", busybox) == archive
    busybox.write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    with pytest.raises(SandboxBroken, match="busybox-static"):
        microvm_initrd.build(tmp_path / "m", busybox)


def tools(folder: Path, download: str) -> str:
    """A PATH with an apt of our own."""
    folder.mkdir()
    scripts = {
        "apt-cache": "echo linux-image-cloud-amd64; echo '  Depends: linux-image-6.1.0-57-cloud-amd64 (= 1)'",
        "apt-get": download,
        "dpkg-deb": 'mkdir -p "$3/boot" "$3/lib/modules/6.1.0-57-cloud-amd64"'
        '; echo kernel >"$3/boot/vmlinuz-6.1.0-57-cloud-amd64"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_a_kernel_is_fetched_whole_and_takes_the_place_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "kernel-6.1.0-1-cloud-amd64").mkdir(parents=True)
    monkeypatch.setenv(
        "PATH", tools(tmp_path / "tools", '[ "$3" = linux-image-6.1.0-57-cloud-amd64 ] && : >x.deb')
    )
    assert microvm_kernel.fetch(data) == "6.1.0-57-cloud-amd64"
    assert [path.name for path in data.iterdir()] == ["kernel-6.1.0-57-cloud-amd64"]
    assert (data / "kernel-6.1.0-57-cloud-amd64/vmlinuz").read_text() == "kernel\n"
    assert (data / "kernel-6.1.0-57-cloud-amd64/modules").is_dir()


def test_a_kernel_that_cannot_be_fetched_leaves_the_last_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    (data / "kernel-6.1.0-1-cloud-amd64").mkdir(parents=True)
    monkeypatch.setenv("PATH", tools(tmp_path / "tools", "echo 'E: hash sum mismatch' >&2; exit 100"))
    with pytest.raises(SandboxBroken, match="apt-get: E: hash sum mismatch"):
        microvm_kernel.fetch(data)
    assert [path.name for path in data.iterdir()] == ["kernel-6.1.0-1-cloud-amd64"]


def test_without_a_kernel_the_words_say_how_to_have_one(tmp_path: Path) -> None:
    boxes.need("busybox", "busybox-static")
    with pytest.raises(SandboxBroken, match="kernel fetch"):
        microvm_kernel.find(tmp_path / "none", system=tmp_path)


BOOT = Boot(
    accel="tcg", memory_mib=256, job_memory_mib=96, cpus=2, processes=99, layer=1, network=False,
    kernel_fd=10, initrd_fd=11, image_fd=12, scratch_fd=13, port_fds=(14, 15, 16, 17), info_fd=18,
)  # fmt: skip


@pytest.fixture
def programs() -> None:
    boxes.need("qemu-system-x86_64", "qemu-system-x86")
    boxes.need("bwrap", "bubblewrap")


@pytest.mark.usefixtures("programs")
def test_a_guest_has_descriptors_and_no_network_and_no_right_but_its_own() -> None:
    line = words(BOOT, mark="m", user=7000, entrances=("/cg/procs",))
    text = " ".join(line)
    assert line[4] == "/cg/procs"
    assert "--reuid=7000" in line
    assert "--unshare-all --die-with-parent --cap-drop ALL" in text
    assert "netdev" not in text
    assert "/dev/kvm" not in text
    assert "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny" in text
    assert "filename=/dev/fdset/1,read-only=on" in text
    assert "filename=/dev/fdset/2,read-only=off" in text
    assert "-m 256M -smp 2" in text
    assert f"shunter_memory={96 * 2**20}" in text
    assert "shunter_network" not in text
    bound = [line[at + 1] for at, word in enumerate(line) if word in ("--ro-bind", "--bind")]
    assert set(bound) <= {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}


@pytest.mark.usefixtures("programs")
def test_a_guest_with_a_network_has_one_that_does_not_clash_with_the_one_around_it() -> None:
    text = " ".join(words(replace(BOOT, network=True, resolver_fd=19), mark="m", user=None, entrances=()))
    assert "user,id=net,net=10.0.3.0/24" in text
    assert "--ro-bind-data 19 /etc/resolv.conf" in text
    assert "shunter_network=10.0.3" in text
    assert "setpriv" not in text


def test_kvm_that_runs_on_no_processor_is_not_taken(tmp_path: Path) -> None:
    device = Path("/dev/kvm")
    assert microvm_kvm.verdict(0.0004, device) is None
    assert "178 ms for what a processor does in one" in (microvm_kvm.verdict(0.178, device) or "")
    assert "there is no" in (microvm_kvm.probe(tmp_path / "kvm") or "")
    (tmp_path / "file").touch()
    assert "runs no guest" in (microvm_kvm.probe(tmp_path / "file") or "")


MEANS = Means(
    kernel=Kernel(release="6", kernel=Path("/k"), initrd=Path("/i"), hash="0"),
    accel="tcg",
    as_root=False,
    homes=cgroups.homes(),
)


def job(**more: object) -> AssignedJob:
    said = {"id": 1, "run": 1, "project": "a/b", "name": "j", "attempt": 1, "tier": "microvm", "timeout_s": 9}
    return AssignedJob.model_validate(said | {"steps": [{"name": "s", "run": "true"}]} | more)


def test_a_job_that_asks_for_a_guest_gets_one_or_none(tmp_path: Path) -> None:
    guests = microvm_check.Found(means=MEANS)
    offers = tiers.Tiers(offered=("process", "microvm"), guests=guests, network=False)
    assert isinstance(offers.sandbox(job(), tmp_path, grace_s=1), MicrovmSandbox)
    with pytest.raises(SandboxBroken, match="slirp4netns"):
        offers.sandbox(job(network=True), tmp_path, grace_s=1)
    weaker = tiers.Tiers(offered=("process", "namespace"))
    with pytest.raises(SandboxBroken, match="no microvm tier"):
        weaker.sandbox(job(), tmp_path, grace_s=1)


def test_a_tier_without_what_it_needs_is_not_offered_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "qemu-system-x86_64 is not installed (Debian: qemu-system-x86)"
    monkeypatch.setattr(microvm_check, "_missing", lambda: missing)
    found = tiers.find(("process", "microvm"), tmp_path)
    assert found.offered == ("process",)
    assert found.why == {"microvm": missing}
    assert f"tier microvm: no: {missing}" in tiers.lines(found)


def test_a_guest_that_did_not_boot_with_kvm_is_tried_emulated_and_a_failure_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    fails = {"kvm", "tcg"}

    def boots(work: Path, means: Means) -> str | None:
        tried.append(means.accel)
        return "it hung" if means.accel in fails else None

    monkeypatch.setattr(microvm_check, "_missing", lambda: None)
    monkeypatch.setattr(microvm_check, "_try", boots)
    monkeypatch.setattr(microvm_check, "_not_writable", lambda device: None)
    monkeypatch.setattr(microvm_kvm, "probe", lambda: None)
    monkeypatch.setattr(microvm_kernel, "find", lambda folder: MEANS.kernel)
    (tmp_path / microvm_check.FOLDER).mkdir()
    assert microvm_check.check(tmp_path).why == "kvm: it hung; tcg: it hung"
    fails.remove("tcg")
    found = microvm_check.check(tmp_path)
    assert found.means is not None
    assert (found.means.accel, found.emulated) == ("tcg", "a guest did not boot with it: it hung")
    assert tried == ["kvm", "tcg", "kvm", "tcg"]
    assert microvm_check.check(tmp_path).known
    assert tried == ["kvm", "tcg", "kvm", "tcg", "kvm"]  # kvm is tried again, what booted is not


def test_a_kernel_is_fetched_without_a_hub() -> None:
    settings = config.parse(["kernel", "fetch", "--work", "/tmp/w"], {})
    assert settings.fetch_kernel
    assert settings.work == Path("/tmp/w")
