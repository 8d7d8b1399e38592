"""What a program costs that is run as a process of its own: seconds that passed, and memory at its peak."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """`seconds` from start to end, `peak_mib` of the largest process, `said` on standard output."""

    seconds: float
    peak_mib: float
    said: bytes = b""


def spend(command: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str] | None = None) -> Spent:
    """Run a command to its end. Raises RuntimeError, with what it said, where it fails."""
    with (cwd / "stdout").open("w+b") as out, (cwd / "stderr").open("w+b") as err:
        began = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        _, status, used = os.wait4(process.pid, 0)  # with its children, which waiting for it alone leaves out
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {err.read()[-2000:]!r}")
        return Spent(seconds=seconds, peak_mib=used.ru_maxrss / 1024, said=out.read())


class Memory:
    """The peak memory of a process that goes on, from one reading to the next."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def forget(self) -> None:
        """Begin anew. Where the kernel does not let us, the peak is that of its whole life."""
        try:
            (self._folder / "clear_refs").write_text("5")
        except OSError as error:
            print(f"the hub's peak memory is that of its whole life ({error})", file=sys.stderr)

    def peak_mib(self) -> float:
        """The most that it had resident since."""
        for line in (self._folder / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the kernel tells no peak of a process")
