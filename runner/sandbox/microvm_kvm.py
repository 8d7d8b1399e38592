"""Whether KVM really runs a guest here: a loop of instructions, timed, in a process of its own.

/dev/kvm opens on machines that cannot run a stock guest (within other guests, by emulation of the kernel):
there the same loop takes a hundred times as long, or for ever. `python -I -S microvm_kvm.py` prints the
seconds that ITERATIONS took, or fails; see `probe`. The calls: the kernel's Documentation/virt/kvm/api.rst.
"""

import ctypes
import fcntl
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

ITERATIONS = 100_000
MOST_S = 0.05  # where the processor runs it this takes well under a millisecond
PROBE_S = 5.0
_CREATE_VM, _CREATE_VCPU, _VCPU_MMAP_SIZE = 0xAE01, 0xAE41, 0xAE04
_SET_TSS_ADDR, _SET_USER_MEMORY_REGION, _RUN = 0xAE47, 0x4020AE46, 0xAE80
_GET_SREGS, _SET_SREGS, _SET_REGS = 0x8138AE83, 0x4138AE84, 0x4090AE82
_TSS = 0xFFFBD000  # three pages that no guest uses, as the API asks for
_CODE_AT, _MEMORY = 0x1000, 0x4000
_EXIT_HLT = 5


def probe(device: Path = Path("/dev/kvm"), *, python: str = sys.executable) -> str | None:
    """Why KVM is not to be used here; None: it is."""
    if not device.exists():
        return f"there is no {device}"
    try:
        done = subprocess.run(  # noqa: S603 - this Python and this file
            [python, "-I", "-S", __file__, str(device)],
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{device} does not run a guest within {PROBE_S:.0f} s"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return f"{device} runs no guest: {lines[-1] if lines else done.returncode}"
    return verdict(float(done.stdout), device)


def verdict(took_s: float, device: Path) -> str | None:
    """What it says that the loop took so long; None: it was quick."""
    if took_s <= MOST_S:
        return None
    words = f"{took_s * 1000:.0f} ms for what a processor does in one"
    return f"{device} runs a guest, but not on the processor: {words}"


def run(device: str) -> float:
    """Seconds that a guest takes for the loop. Raises OSError, RuntimeError."""
    libc = ctypes.CDLL(None, use_errno=True)
    kvm = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    vm = fcntl.ioctl(kvm, _CREATE_VM, 0)
    libc.ioctl(vm, ctypes.c_ulong(_SET_TSS_ADDR), ctypes.c_ulong(_TSS))
    memory = mmap.mmap(-1, _MEMORY)
    # mov ecx, N; again: dec ecx; jnz again; hlt (16-bit code with 32-bit operands)
    code = b"\x66\xb9" + struct.pack("<I", ITERATIONS) + b"\x66\x49\x75\xfc\xf4"
    memory[: len(code)] = code
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fcntl.ioctl(vm, _SET_USER_MEMORY_REGION, struct.pack("<IIQQQ", 0, 0, _CODE_AT, _MEMORY, address))
    cpu = fcntl.ioctl(vm, _CREATE_VCPU, 0)
    state = mmap.mmap(cpu, fcntl.ioctl(kvm, _VCPU_MMAP_SIZE, 0))
    segments = bytearray(312)  # struct kvm_sregs; it begins with cs: base, limit, selector
    fcntl.ioctl(cpu, _GET_SREGS, segments, True)
    struct.pack_into("<Q", segments, 0, 0)
    struct.pack_into("<H", segments, 12, 0)
    fcntl.ioctl(cpu, _SET_SREGS, bytes(segments))
    registers = [0] * 18  # struct kvm_regs: rip is the 17th, rflags the last, of which one bit is always set
    registers[16], registers[17] = _CODE_AT, 2
    fcntl.ioctl(cpu, _SET_REGS, struct.pack("<18Q", *registers))
    began = time.perf_counter()
    if libc.ioctl(cpu, ctypes.c_ulong(_RUN), ctypes.c_long(0)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    took_s = time.perf_counter() - began
    (reason,) = struct.unpack_from("<I", state, 8)
    if reason != _EXIT_HLT:
        raise RuntimeError(f"the guest ended for reason {reason}, and not by itself")
    return took_s


if __name__ == "__main__":
    sys.stdout.write(f"{run(sys.argv[1]):.6f}\n")
