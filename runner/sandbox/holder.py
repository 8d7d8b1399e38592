"""The holder of one job's place: its user and network namespaces, and the mounts that its steps see.

Invariant: all that it makes is in namespaces of its own, so that nothing of it is left, neither a
mount nor a loop device, once it and the job's processes are gone; and it goes as soon as the agent
does, for whatever reason: its input then reads as ended. The machine's own mount table never changes.

It is started as a file, `python -I -S holder.py`, with an empty environment, reads a plan as one line
of JSON and answers with one: `{"ready": {"user": PID, "mount": PID, "spot": FOLDER}}` or
`{"failed": WORDS}`. It must never be given a secret.

The plan: `bwrap` (its path), `scratch` (a file with an ext4 file system where root runs this, else a
folder), `layers` (for each image the path of its file, or of the folder it was unpacked to), and
`ids` (the first of COUNT user numbers of the machine that the job's are) or None for a plain user,
whose job has one number, its own, and sees it as 0.

Below `spot`, a tmpfs: `bwrap`, `s` (scratch), `work` (the workspace), and for image N `rN`: its
read-only files below a writable layer. Who writes through `s/work` does so by the machine's numbers
0 and up, who writes through `work` by the job's: an id-mapped mount, as the image's files are.
"""

# ruff: noqa: PTH102, PTH112 - every job starts this, and pathlib takes 5 ms to load

import contextlib
import ctypes
import fcntl
import json
import os
import select
import socket
import struct
import sys
from typing import Any, NoReturn

COUNT = 65536  # user numbers of a job: what a distribution's own users take
SPOTS = ("/mnt", "/media", "/srv", "/opt", "/tmp", "/var/tmp")  # noqa: S108 - covered, never written to
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 0x1000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG, SIGKILL = 1, 9
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
OPEN_TREE_CLONE, AT_EMPTY_PATH, MOVE_MOUNT_F_EMPTY_PATH = 1, 0x1000, 4
MOUNT_ATTR_IDMAP = 0x100000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def check(result: int, what: str) -> int:
    """What a call of libc returned. Raises OSError, with `what` was tried."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    check(done, f"mount {kind} {target}")


def mount_with_ids(source: str, target: str, namespace: int) -> None:
    """The mount at `source` once more at `target`, its user numbers mapped as in a user namespace."""
    flags = ctypes.c_uint(OPEN_TREE_CLONE | os.O_CLOEXEC)
    tree = check(_libc.syscall(ctypes.c_long(OPEN_TREE), -100, source.encode(), flags), "open_tree")
    try:
        attributes = struct.pack("<QQQQ", MOUNT_ATTR_IDMAP, 0, 0, namespace)
        check(
            _libc.syscall(
                ctypes.c_long(MOUNT_SETATTR), tree, b"", AT_EMPTY_PATH, attributes, ctypes.c_size_t(32)
            ),
            f"an id-mapped mount of {source}",
        )
        check(
            _libc.syscall(
                ctypes.c_long(MOVE_MOUNT), tree, b"", -100, target.encode(), MOVE_MOUNT_F_EMPTY_PATH
            ),
            "move_mount",
        )
    finally:
        os.close(tree)


def mount_file(path: str, target: str, options: str) -> None:
    """Mount a file through a loop device that goes with its last mount. By mount(8): it finds a free one."""
    out, into = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, into, 2)]
    words = ["mount", "-n", "-o", options, "--", path, target]
    pid = os.posix_spawnp("mount", words, {"PATH": PATH, "LC_ALL": "C"}, file_actions=actions)
    os.close(into)
    with os.fdopen(out, "rb") as stderr:
        said = stderr.read(4096).decode(errors="replace").strip()
    if (code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) != 0:
        raise OSError(0, said or f"mount ended with {code}")


PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def raise_loopback() -> None:
    """Bring up `lo`, as programs expect it. In the network namespace of this process."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(probe, SIOCGIFFLAGS, asked), 16)
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def write_map(pid: int | str, inside: int, outside_user: int, outside_group: int, count: int) -> None:
    """Say which numbers of the machine those within a user namespace are."""
    for name, outside in (("uid_map", outside_user), ("gid_map", outside_group)):
        with open(f"/proc/{pid}/{name}", "w") as file:  # noqa: PTH123 - pathlib is not worth its import
            file.write(f"{inside} {outside} {count}")


def hold_namespaces(first: int) -> int:
    """A child that holds a user namespace with COUNT numbers from `first`, and a network; its pid."""
    up, told = os.pipe()
    mapped, tell = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_held(parent, told, mapped, tell)
    os.close(told)
    os.close(mapped)
    try:
        _expect(up, "the namespaces")
        write_map(pid, 0, first, first, COUNT)
        os.write(tell, b"x")
        _expect(up, "its network")
    finally:
        os.close(up)
        os.close(tell)
    return pid


def _be_held(parent: int, told: int, mapped: int, tell: int) -> NoReturn:
    """The child: make the namespaces, wait for the map, bring up the loopback, and stay."""
    try:
        os.close(tell)
        _libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNET), "user namespace")
        os.write(told, b"x")
        if os.read(mapped, 1):
            raise_loopback()
            os.write(told, b"x")
            while True:
                select.select([], [], [])
    except OSError as error:
        os.write(told, f"!{error}".encode())
    os._exit(1)


def _expect(pipe: int, what: str) -> None:
    got = os.read(pipe, 4096)
    if got[:1] != b"x":
        raise OSError(0, got[1:].decode() or f"{what} could not be made")


def spot_for(paths: list[str]) -> str:
    """A folder that every machine has, to mount over in here: one that hides nothing that is needed."""
    for spot in SPOTS:
        real = os.path.realpath(spot)
        if os.path.isdir(spot) and not any(os.path.realpath(path).startswith(real + "/") for path in paths):
            return spot
    raise OSError(0, f"none of {', '.join(SPOTS)} is there to mount on")


def build_as_root(plan: dict[str, Any], spot: str) -> dict[str, Any]:
    """Loop mounts and id-mapped mounts; the answer."""
    first = plan["ids"]
    user = hold_namespaces(first)
    namespace = os.open(f"/proc/{user}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    scratch = f"{spot}/s"
    mount_file(plan["scratch"], scratch, "loop,noatime,nodev,nosuid")
    os.mkdir(f"{scratch}/work", 0o755)
    mount_with_ids(f"{scratch}/work", f"{spot}/work", namespace)
    for number, layer in enumerate(plan["layers"]):
        raw = f"{spot}/i{number}"
        if os.path.isdir(layer):
            mount(layer, raw, flags=MS_BIND)
            mount("none", raw, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV)
        else:
            mount_file(layer, raw, "loop,ro,nodev")
        mount_with_ids(raw, f"{spot}/l{number}", namespace)
        for name in "uw":
            os.mkdir(f"{scratch}/{name}{number}", 0o755)
            os.chown(f"{scratch}/{name}{number}", first, first)
        lay(spot, number, "")
    os.close(namespace)
    return {"user": user, "mount": os.getpid(), "spot": spot}


def build_as_user(plan: dict[str, Any], spot: str) -> dict[str, Any]:
    """Binds of folders; the answer. This process is in the job's namespaces."""
    mount(plan["scratch"], f"{spot}/s", flags=MS_BIND)
    os.mkdir(f"{spot}/s/work", 0o755)
    mount(f"{spot}/s/work", f"{spot}/work", flags=MS_BIND)
    for number, layer in enumerate(plan["layers"]):
        mount(layer, f"{spot}/l{number}", flags=MS_BIND)
        for name in "uw":
            os.mkdir(f"{spot}/s/{name}{number}", 0o755)
        lay(spot, number, ",userxattr")
    return {"user": os.getpid(), "mount": os.getpid(), "spot": spot}


def lay(spot: str, number: int, more: str) -> None:
    """One image's files below its writable layer."""
    layers = f"lowerdir={spot}/l{number},upperdir={spot}/s/u{number},workdir={spot}/s/w{number}"
    mount("overlay", f"{spot}/r{number}", "overlay", MS_NODEV, layers + more)


def build(plan: dict[str, Any]) -> dict[str, Any]:
    """Make the place; the answer. Raises OSError."""
    as_root = plan["ids"] is not None
    user, group = os.geteuid(), os.getegid()
    paths = [plan["bwrap"], plan["scratch"], *plan["layers"]]
    check(_libc.unshare(CLONE_NEWNS | (0 if as_root else CLONE_NEWUSER | CLONE_NEWNET)), "namespaces")
    if not as_root:
        with open("/proc/self/setgroups", "w") as file:  # noqa: PTH123 - as above
            file.write("deny")
        write_map("self", 0, user, group, 1)
        raise_loopback()
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    spot = spot_for(paths)
    bwrap = os.open(plan["bwrap"], os.O_RDONLY | os.O_CLOEXEC)
    mount("tmpfs", spot, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m")
    for name in ("s", "work", *(f"{each}{n}" for n in range(len(plan["layers"])) for each in "ilr")):
        os.mkdir(f"{spot}/{name}", 0o755)
    # A copy: the job's numbers may not reach the folder where it is installed.
    copy = os.open(f"{spot}/bwrap", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o755)
    while _copy_some(bwrap, copy):
        pass
    os.close(bwrap)
    os.close(copy)
    return build_as_root(plan, spot) if as_root else build_as_user(plan, spot)


def _copy_some(source: int, target: int) -> bool:
    piece = os.read(source, 1 << 18)
    view = memoryview(piece)
    while view:
        view = view[os.write(target, view) :]
    return bool(piece)


def main() -> None:
    """Build as the plan says, answer, and stay until the input ends."""
    os.umask(0o022)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    answer: dict[str, Any]
    try:
        answer = {"ready": build(json.loads(line))}
    except OSError as error:
        answer = {"failed": error.strerror or str(error)}
    os.write(1, json.dumps(answer).encode() + b"\n")
    if "ready" in answer:
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
