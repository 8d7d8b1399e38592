"""How the runner's token is kept from the jobs it runs.

A job of the process tier has the agent's user: it may read the agent's environment and command line
under /proc, which stay as they were when the process began, whatever is done to `os.environ`. So a
process that was given its token there begins again with the token in a pipe, under the same number;
and it then shuts its memory to other processes of its user. Against a job that runs as root nothing
helps: give such a runner only projects that you trust with its token.
"""

import ctypes
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NoReturn

FD = "SHUNTER_TOKEN_FD"
VARIABLE = "SHUNTER_TOKEN"
MAX_BYTES = 4096  # a pipe holds more, so writing never waits
_PR_SET_DUMPABLE = 4


def take(words: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """The words to parse, the token put back into `environ`, for this process's own eyes.

    If the token stands where others can read it, this does not return: the process begins anew.
    """
    if (number := environ.pop(FD, "")).isdecimal():
        with os.fdopen(int(number), "rb") as pipe:
            environ[VARIABLE] = pipe.read(MAX_BYTES).decode()
        return list(words)
    kept, token = _split(words)
    token = token or environ.get(VARIABLE, "")
    if token and len(token.encode()) <= MAX_BYTES:
        _begin_anew(kept, token, environ)
    return list(words)


def _begin_anew(words: Sequence[str], token: str, environ: Mapping[str, str]) -> NoReturn:
    reader, writer = os.pipe()
    os.write(writer, token.encode())
    os.close(writer)
    os.set_inheritable(reader, True)
    clean = {key: text for key, text in environ.items() if key != VARIABLE} | {FD: str(reader)}
    sys.stdout.flush()
    # How this process was begun, up to its own words: the interpreter's options, `-m runner`, or a script.
    begun = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    os.execve(sys.executable, [sys.executable, *begun, *words], clean)  # noqa: S606 - itself


def shut_memory() -> None:
    """Keep other processes of this user out of /proc/PID/environ and /proc/PID/mem (not root's)."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _split(words: Sequence[str]) -> tuple[list[str], str]:
    """The words without the token, and the token."""
    kept: list[str] = []
    token = ""
    ahead = iter(words)
    for word in ahead:
        if word == "--token":
            token = next(ahead, "")
        elif word.startswith("--token="):
            token = word.partition("=")[2]
        else:
            kept.append(word)
    return kept, token
