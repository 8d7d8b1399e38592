"""Bytes to cut, made from nothing but BLAKE3: the same on every machine and in every version.

And the memory that a piece of code takes, measured in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

from blake3 import blake3

ROOT = Path(__file__).parents[2]

MEASURED = """
import re
def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
{prepare}
before = peak_kib()
{code}
print(peak_kib() - before)
"""


def noise(size: int, seed: str = "noise") -> bytes:
    """Bytes that do not compress."""
    return blake3(seed.encode()).digest(length=size)


def listing(lines: int) -> bytes:
    """Text with much that repeats, as in a folder's listing: 56 bytes a line."""
    return b"".join(
        b"%06d drwxr-xr-x root root /usr/share/doc/%s\n"
        % (number, blake3(number.to_bytes(4, "big")).hexdigest(6).encode())
        for number in range(lines)
    )


def peak_growth_kib(prepare: str, code: str) -> int:
    """How much the most memory ever held by a process grows while it runs `code`, after `prepare`."""
    script = MEASURED.format(prepare=prepare, code=code)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])
