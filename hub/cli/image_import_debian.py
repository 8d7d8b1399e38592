"""A Debian suite made into a tar by mmdebstrap, which works for a plain user too.

The invariant: mmdebstrap gets words of a known form only, and its output is read like any other tar.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hub.cli.errors import CliError, Usage
from hub.cli.image_import_arch import to_debian

PREFIX = "debian:"
BUILD_S = 3600  # one to two minutes as measured; an hour on a slow line is still a build
STOP_S = 30  # mmdebstrap unmounts what it mounted
MAX_INCLUDES = 500  # one word of a command line, far below what Linux takes
# Passwords count the days since their change from this time on, and day 0 means "must be changed".
LEAST_EPOCH_S = 315_619_200
_SUITE = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_PACKAGE = re.compile(r"[A-Za-z0-9?~*][A-Za-z0-9+.:~?*()=/_-]{0,199}")


def build(source: str, target: Path, *, includes: Sequence[str], arch: str | None, epoch_s: int) -> None:
    """Write a tar of the suite that `debian:SUITE` names, with the packages included.

    Raises Usage where the words are wrong or Debian has no such architecture, CliError where
    mmdebstrap is not installed or fails.
    """
    words = _command(source, target, includes, arch)
    program = shutil.which("mmdebstrap")
    if program is None:
        raise CliError(f"{source} needs mmdebstrap, which is not installed: apt-get install mmdebstrap")
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(max(epoch_s, LEAST_EPOCH_S)), "LC_ALL": "C.UTF-8"}
    log = target.with_suffix(".log")
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603 - no shell, and every word has a known form
            [program, *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environ
        )
        try:
            status = process.wait(BUILD_S)
        except subprocess.TimeoutExpired:
            raise CliError(f"{source}: mmdebstrap did not end within {BUILD_S} s") from None
        finally:
            _stop(process)
    if status != 0:
        lines = log.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
        last = next((line for line in reversed(lines) if line.startswith("E:")), lines[-1] if lines else "")
        raise CliError(f"{source}: mmdebstrap failed: {last or f'exit status {status}'}")


def _command(source: str, target: Path, includes: Sequence[str], arch: str | None) -> list[str]:
    suite = source.removeprefix(PREFIX)
    if not _SUITE.fullmatch(suite):
        raise Usage(f"{source}: {suite!r} is no name of a suite; debian:bookworm is one")
    packages = [each for word in includes for each in word.split(",") if each]
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise Usage(f"--include {package}: is no name of a package")
    if len(packages) > MAX_INCLUDES:
        raise Usage(f"--include: {MAX_INCLUDES} packages at most")
    words = ["--variant=minbase", "--format=tar"]
    if packages:
        words.append(f"--include={','.join(packages)}")
    if arch is not None:
        debian = to_debian(arch)
        if debian is None:
            raise Usage(f"--arch {arch}: Debian has no such architecture")
        words.append(f"--architectures={debian}")
    return [*words, suite, str(target)]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
