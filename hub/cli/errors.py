"""What ends a command, and with which exit status.

    CliError          1  it failed
    ├── Refused       1  the hub said no (2 where it says that the words were wrong: 400 and 422)
    ├── Usage         2  the words were wrong
    └── Unreachable   3  the hub cannot be reached

`main` prints them; nothing else in the command line exits by itself.
"""

from typing import Any

WRONG_WORDS = frozenset({400, 422})


class CliError(Exception):
    """The base: its text says what is wrong and what to do about it."""

    exit_status = 1
    file: str | None = None  # the pipeline file that was sent, if one was

    def lines(self) -> list[str]:
        """What to print, without colours."""
        return [f"shunter: {self}"]


class Usage(CliError):
    """The words were wrong."""

    exit_status = 2


class Unreachable(CliError):
    """No answer, or none that comes from a hub."""

    exit_status = 3


class Refused(CliError):
    """The hub answered with an error. `problem` is its RFC 9457 object, empty where it sent none."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        detail = problem.get("detail") or problem.get("title") or "the hub gave no reason"
        super().__init__(str(detail))
        self.status = status
        self.problem = problem
        self.exit_status = 2 if status in WRONG_WORDS else 1

    def lines(self) -> list[str]:
        """One line for the whole, then one per fault: `FILE:LINE: jobs.build.needs[0]: …`."""
        faults = self.problem.get("faults") or []
        return [f"shunter: {self}", *(_fault_line(fault, self.file) for fault in faults)]


def _fault_line(fault: dict[str, Any], file: str | None) -> str:
    place = file or ""
    if place and fault.get("line"):
        place += f":{fault['line']}"
    parts = [part for part in (place, fault.get("path"), fault.get("text")) if part]
    nearest = fault.get("nearest")
    return ": ".join(parts) + (f' (did you mean "{nearest}"?)' if nearest else "")
