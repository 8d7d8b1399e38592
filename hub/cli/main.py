"""`shunter`: the table of commands, and how one ends.

Exit status: 0 done; 1 it failed; 2 the words were wrong; 3 the hub cannot be reached. Importing this
must stay cheap: a command loads what it needs inside its function.
"""

import io
import os
import sys

from hub.cli import admin, check, demo, fleet, image, replay, runners, runs, simulate, tokens
from hub.cli.errors import CliError
from hub.cli.terminal import one_line
from hub.cli.words import Group, run

INTERRUPTED = 130  # as a shell tells of a program that Ctrl-C ended

shunter = Group("shunter", "A CI runner hub that gives each job to the best runner there is, and says why.")
shunter.add("demo", demo.demo)
shunter.add("hub", admin.hub)
shunter.add("runner", admin.runner)
shunter.add("run", runs.app)
shunter.add("preview", runs.preview)
shunter.add("image", image.app)
shunter.add("runners", runners.app)
shunter.add("fleet", fleet.fleet)
shunter.add("queue", fleet.queue)
shunter.add("simulate", simulate.simulate)
shunter.add("replay", replay.replay)
shunter.add("token", tokens.app)
shunter.add("admin", check.app)
shunter.add("login", fleet.login)
shunter.add("logout", fleet.logout)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a sign shows `?`, not a traceback
    words = sys.argv[1:]
    if words[:1] == ["runner"]:
        admin.run_runner(words[1:])
    try:
        run(shunter, words, _version)
        sys.stdout.flush()
    except CliError as error:
        print("\n".join(one_line(line) for line in error.lines()), file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read has enough. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _version() -> str:
    from importlib.metadata import version

    return f"shunter {version('shunter')}"


if __name__ == "__main__":
    main()
