"""How a runner is set: options, then the environment, then what the machine is.

The token is a secret: see `secret` for how it leaves the environment and the command line before
the first job runs.
"""

import argparse
import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from hub.wire.base import MAX_LABELS, MAX_WAIT_S, TIERS, Label
from hub.wire.claim import DEFAULT_WAIT_S

IMPLEMENTED = ("process", "namespace", "microvm")


class BadOptions(Exception):
    """The options do not make sense: its words say what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things take and wait, in seconds. Tests make them short."""

    grace_s: float = 10.0  # between SIGTERM and SIGKILL
    heartbeat_s: float | None = None  # None: a sixth of the lease, within 1 to 10 s
    retry_s: float = 1.0  # the first wait after a failed call; doubled up to `retry_most_s`
    retry_most_s: float = 30.0
    prepare_s: float = 1800.0  # for the workspace
    away_s: float = 86_400.0  # a hub that is away longer will not take a job's end any more
    release_s: float = 10.0  # for giving a job back when the process is told to go at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings. `None` for a figure: as measured."""

    url: str
    token: str
    work: Path
    max_jobs: int = 1
    labels: tuple[str, ...] = ()
    exclusive: bool = False
    tiers: tuple[str, ...] = ("process",)
    wait_s: float = DEFAULT_WAIT_S
    speed: int | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    reserve_mib: int | None = None
    images_mib: int | None = None  # None: see images.default_limit_mib
    ca: Path | None = None
    accel: Literal["kvm", "tcg"] | None = None  # how guests run; found, and not set; None: there are none
    once: bool = False
    check: bool = False
    report: bool = False
    fetch_kernel: bool = False
    log_level: str = "info"
    timing: Timing = Timing()


def parse(words: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Settings from the command line and the environment. Raises BadOptions; SystemExit for --help."""
    if words[:1] == ["check"]:
        words = ["--report", *words[1:]]
    elif words[:2] == ["kernel", "fetch"]:
        words = ["--fetch-kernel", *words[2:]]
    given = parser().parse_args(words)
    url = given.hub or environ.get("SHUNTER_URL", "")
    token = given.token or _token_file(given.token_file) or environ.get("SHUNTER_TOKEN", "")
    if not (given.check or given.report or given.fetch_kernel):
        _check_target(url, token)
    labels = tuple(dict.fromkeys(word for word in given.labels.replace(",", " ").split()))
    _check_labels(labels, given.exclusive)
    tiers = tuple(dict.fromkeys(given.tiers.replace(",", " ").split())) or IMPLEMENTED
    if any(tier not in IMPLEMENTED for tier in tiers):
        raise BadOptions(f"--tiers: this runner offers {', '.join(IMPLEMENTED)}, of {', '.join(TIERS)}")
    return Config(
        url=url.rstrip("/"),
        token=token,
        work=Path(given.work).expanduser().absolute() if given.work else default_work(environ),
        max_jobs=given.max_jobs,
        labels=labels,
        exclusive=given.exclusive,
        tiers=tiers,
        wait_s=given.wait,
        speed=given.speed,
        cpus=given.cpus,
        memory_mib=given.memory,
        reserve_mib=given.reserve,
        images_mib=given.images_mib,
        ca=given.ca,
        once=given.once,
        check=given.check,
        report=given.report,
        fetch_kernel=given.fetch_kernel,
        log_level=given.log_level,
    )


def default_work(environ: Mapping[str, str]) -> Path:
    """Where a runner keeps its files unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/shunter-runner")
    data = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(data) / "shunter-runner"


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="shunter runner",
        description=f"Run jobs on this machine ({socket.gethostname()}) for a hub.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--hub", metavar="URL", help="where the hub is [SHUNTER_URL]")
    add("--token", metavar="T", help="this runner's token [SHUNTER_TOKEN]")
    add("--token-file", metavar="FILE", type=Path, help="a file that holds it")
    add("--work", metavar="DIR", help="its folder, for this process alone [~/.local/share/shunter-runner]")
    add("--max-jobs", metavar="N", type=_within(1, 1000), default=1, help="jobs at a time [1]")
    add("--labels", metavar="A,B", default="", help="labels it offers")
    add("--exclusive", action="store_true", help="take only jobs that ask for one of its labels")
    add("--tiers", metavar="A,B", default="", help="sandboxes it offers [each that passes its check here]")
    add("--wait", metavar="S", type=_seconds, default=DEFAULT_WAIT_S, help="length of one poll [25]")
    add("--speed", metavar="N", type=_within(1, 1_000_000), help="its speed score, instead of measuring")
    add("--cpus", metavar="N", type=_within(1, 100_000), help="CPUs it offers, instead of all")
    add("--memory", metavar="MIB", type=_within(1, 2**40), help="memory it offers, instead of all")
    add("--reserve", metavar="MIB", type=_within(0, 2**40), help="memory kept back [as the hub is set]")
    add(
        "--images-mib",
        metavar="MIB",
        type=_within(0, 2**40),
        help="disk for images, 0 for none [a fifth of it, at most 50 GiB]",
    )
    add("--ca", metavar="FILE", type=Path, help="certificates to trust, instead of the system's")
    add("--once", action="store_true", help="run one job and exit")
    add("--check", action="store_true", help="print what it would offer and exit")
    add("--report", action="store_true", help="print what was found of its tiers and exit; also: check")
    add(
        "--fetch-kernel",
        action="store_true",
        help="fetch a kernel for guests by apt-get and exit; also: kernel fetch",
    )
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    return made


def _check_target(url: str, token: str) -> None:
    if not url:
        raise BadOptions("say where the hub is: --hub URL, or SHUNTER_URL")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadOptions(f"--hub: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadOptions(f"--hub: {url} is not an address such as https://ci.example.org")
    if not token:
        raise BadOptions("give this runner its token: --token T, --token-file FILE, or SHUNTER_TOKEN")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadOptions("--token: a token is printable ASCII without blanks")


def _check_labels(labels: tuple[str, ...], exclusive: bool) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(Label)
    for label in labels:
        try:
            adapter.validate_python(label)
        except ValidationError:
            raise BadOptions(f"--labels: {label!r} is not a label: letters, digits and ._:/=+-") from None
    if len(labels) > MAX_LABELS:
        raise BadOptions(f"--labels: at most {MAX_LABELS}")
    if exclusive and not labels:
        raise BadOptions("--exclusive needs --labels: without one, no job could ever come")


def _token_file(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOptions(f"--token-file: {path} cannot be read: {error}") from None


class _within:  # noqa: N801 - reads as a function where it is used
    """An argparse type: a whole number within bounds."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def __call__(self, text: str) -> int:
        if text.isdecimal() and self._least <= int(text) <= self._most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {self._least} to {self._most}")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= MAX_WAIT_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to {MAX_WAIT_S}")
    return number
