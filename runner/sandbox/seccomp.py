"""Which system calls a job may not make: a filter for `bwrap --seccomp`, as the kernel reads it.

A deny list: what a job has no business with and what has been the way out of sandboxes (mounts, new
user namespaces, kernel modules, bpf, io_uring, keys that are not in a namespace) fails with EPERM.
`clone3` fails with ENOSYS, for a filter cannot look into its arguments and libc then uses `clone`.

Numbers: the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
Never add a call here that a program may need to be built or tested: ptrace and chroot stay allowed.
"""

import errno
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; both are little-endian here
_NEW_USER_NAMESPACE = 0x10000000
_X32 = 0x40000000  # a second numbering of the same calls, which would pass by the list

# The same number on every architecture.
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How the kernel names it, and the numbers of its calls."""

    audit: int
    clone: int
    clone3: int
    denied: Mapping[str, int]


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(
        audit=0xC000003E,
        clone=56,
        clone3=435,
        denied=_EVERYWHERE
        | {
            "syslog": 103, "pivot_root": 155, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166,
            "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173, "init_module": 175,
            "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212, "clock_settime": 227,
            "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
            "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "finit_module": 313,
            "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
        },
    ),
    "aarch64": Architecture(
        audit=0xC00000B7,
        clone=220,
        clone3=435,
        denied=_EVERYWHERE
        | {
            "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "quotactl": 60, "acct": 89,
            "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112,
            "syslog": 116, "reboot": 142, "settimeofday": 170, "add_key": 217, "request_key": 218,
            "keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241, "open_by_handle_at": 265,
            "setns": 268, "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
        },
    ),
}  # fmt: skip


def program(arch: str) -> bytes | None:
    """The filter for a machine as `uname -m` names it; None: its calls are not known here."""
    if (known := ARCHITECTURES.get(arch)) is None:
        return None
    lines = [
        _line(_LOAD, _ARCH),
        _line(_EQUAL, known.audit, 1, 0),
        _line(_RETURN, _KILL),  # a 32-bit program, whose calls have other numbers
        _line(_LOAD, _NUMBER),
    ]
    if arch == "x86_64":
        lines += [_line(_AT_LEAST, _X32, 0, 1), _fail(errno.ENOSYS)]
    lines += [_line(_EQUAL, known.clone3, 0, 1), _fail(errno.ENOSYS)]
    for number in sorted(known.denied.values()):
        lines += [_line(_EQUAL, number, 0, 1), _fail(errno.EPERM)]
    lines += [
        _line(_EQUAL, known.clone, 0, 3),
        _line(_LOAD, _FIRST_ARGUMENT),
        _line(_BITS, _NEW_USER_NAMESPACE, 0, 1),
        _fail(errno.EPERM),
        _line(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


def _line(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """One struct sock_filter."""
    return struct.pack("<HBBI", code, if_so, if_not, value)


def _fail(number: int) -> bytes:
    return _line(_RETURN, _ERROR | number)
