"""The keeper of one sandbox: the process that a job's processes are children of, however they flee.

Invariant: when it ends, nothing of the job is left. It is the reaper of orphans below it
(PR_SET_CHILD_SUBREAPER), so that a daemon that made a session of its own is still found; and it ends
everything as soon as the agent is gone, for whatever reason: the control socket then reads as ended.

It is started as a file, `python -I -S keeper.py CONTROL OUTPUT` (two inherited descriptors), with an
empty environment, and imports nothing but the standard library, and little of that: 20 ms. It must
never be given a secret: a job of the same user can look into it.

One JSON object a line. To it: `{"do": "run", "argv", "env", "cwd", "nice"}` starts the one leader;
`{"do": "end", "grace_s"}` ends everything, with SIGKILL once `grace_s` is over. From it:
`{"exit": N}` for the leader (128 + the signal, as shells say it), `{"gone": [pids that would not die]}`.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
KILL_S = 10.0  # after SIGKILL, a process that is still there hangs in the kernel or belongs to another
OOM_SCORE = 500  # where memory runs out, a job goes before the agent
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_RESET = (*_IGNORED, signal.SIGPIPE, signal.SIGCHLD)  # what a step finds at its default


def processes() -> dict[int, tuple[int, str]]:
    """Every process: its parent and its state (`Z`: dead, not yet reaped)."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not worth its import in the keeper
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    fields = file.read().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), fields[0].decode())
    return found


def descendants(root: int) -> list[int]:
    """The living processes below `root`, parents before children."""
    table = processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, ahead = [], [root]
    for pid in ahead:
        ahead.extend(children.get(pid, ()))
        if pid != root and table[pid][1] not in "ZX":
            found.append(pid)
    return found


def signal_one(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone, or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class Keeper:
    """Starts the leader, reaps whatever ends below it, and ends it all."""

    def __init__(self, control: socket.socket, output: int) -> None:
        self._control = control
        self._output = output
        self._leader: int | None = None
        self._ending: float | None = None  # when SIGKILL is due; None: nothing is being ended
        self._read = b""

    def serve(self, wake: int) -> None:
        """Obey until the control socket ends. `wake`: readable after a child ended."""
        while True:
            wait_s = None if self._ending is None else max(0.0, self._ending - time.monotonic())
            ready, _, _ = select.select([self._control.fileno(), wake], [], [], wait_s)
            if wake in ready:
                os.read(wake, 4096)
            alone = self._reap()
            if self._ending is not None and (alone or time.monotonic() >= self._ending):
                left = [] if alone else self._kill()
                self._ending = None
                self._say({"gone": left})
            if self._control.fileno() in ready and not self._obey():
                break
        self._kill()

    def _obey(self) -> bool:
        """Read what was asked; False: the agent is gone."""
        try:
            got = self._control.recv(65536)
        except ConnectionError:
            return False
        *lines, self._read = (self._read + got).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if asked["do"] == "run":
                self._run(asked)
            else:
                self._end(asked["grace_s"])
        return bool(got)

    def _end(self, grace_s: float) -> None:
        due = time.monotonic() + grace_s
        self._ending = due if self._ending is None else min(due, self._ending)
        if grace_s > 0:
            for pid in descendants(os.getpid()):
                signal_one(pid, signal.SIGTERM)
                signal_one(pid, signal.SIGCONT)  # one that is stopped could not obey
        os.kill(os.getpid(), signal.SIGCHLD)  # look at once: there may be nothing to end

    def _run(self, asked: dict[str, object]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become(asked)
        self._leader = pid

    def _become(self, asked: dict[str, object]) -> None:
        """In the child: turn into the step, or say why not. Never returns."""
        argv, env, cwd, nice = asked["argv"], asked["env"], asked["cwd"], asked["nice"]
        assert isinstance(argv, list)
        assert isinstance(env, dict)
        try:
            signal.set_wakeup_fd(-1)
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (self._output, 1), (self._output, 2)):
                os.dup2(source, target)
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
                file.write(str(OOM_SCORE))
            with contextlib.suppress(OSError):
                os.nice(int(str(nice)))
            os.umask(0o022)
            os.chdir(str(cwd))
            os.execve(argv[0], argv, env)  # noqa: S606 - the command of the job is what this is for
        except BaseException as error:
            os.write(2, f"the step cannot be started: {error}\n".encode())
        finally:
            os._exit(126)

    def _reap(self) -> bool:
        """Take the exits of children; True: there is none left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._leader:
                self._leader = None
                code = os.waitstatus_to_exitcode(status)
                self._say({"exit": code if code >= 0 else 128 - code})

    def _kill(self) -> list[int]:
        """Kill all that is below; what would not die within the bound.

        They are stopped first, until no new one is found: who forks faster than it is killed would
        never end otherwise.
        """
        until = time.monotonic() + KILL_S
        while True:
            seen: set[int] = set()
            while fresh := [pid for pid in descendants(os.getpid()) if pid not in seen]:
                for pid in fresh:
                    signal_one(pid, signal.SIGSTOP)
                seen.update(fresh)
                if time.monotonic() > until:
                    break
            for pid in seen:
                signal_one(pid, signal.SIGKILL)
            if self._reap():
                return []
            if time.monotonic() > until:
                return descendants(os.getpid())
            time.sleep(0.005)

    def _say(self, message: dict[str, object]) -> None:
        with contextlib.suppress(OSError):  # the agent is gone: the next read says so
            self._control.sendall(json.dumps(message).encode() + b"\n")


def main(words: list[str]) -> None:
    """Serve on the descriptors named by `words`."""
    control, output = (int(word) for word in words)
    os.set_inheritable(control, False)
    os.set_inheritable(output, False)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    wake, told = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # so that `told` is written
    Keeper(socket.socket(fileno=control), output).serve(wake)


if __name__ == "__main__":
    main(sys.argv[1:])
