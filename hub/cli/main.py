"""`shunter`: the table of commands, and how one ends.

Exit status: 0 done; 1 it failed; 2 the words were wrong; 3 the hub cannot be reached. Importing this
must stay cheap: a command loads what it needs inside its function.
"""

import io
import sys
from typing import Annotated

import typer

from hub.cli import admin, demo, fleet, runners, runs, tokens
from hub.cli.errors import CliError
from hub.cli.session import Session, asking
from hub.cli.terminal import one_line

app = typer.Typer(
    name="shunter",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: rich would double the time that `--help` takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"shunter {version('shunter')}")
        raise typer.Exit


@app.callback()
@asking
def _shunter(
    session: Session,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A CI runner hub that gives each job to the best runner there is, and says why."""


app.command("demo")(demo.demo)
app.command("hub")(admin.hub)
app.command(
    "runner",
    add_help_option=False,  # it has a help of its own
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(admin.runner)
app.add_typer(runs.app, name="run")
app.command("preview")(runs.preview)
app.add_typer(runners.app, name="runners")
app.command("fleet")(fleet.fleet)
app.command("queue")(fleet.queue)
app.add_typer(tokens.app, name="token")
app.command("login")(fleet.login)
app.command("logout")(fleet.logout)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a sign shows `?`, not a traceback
    try:
        app()
    except CliError as error:
        print("\n".join(one_line(line) for line in error.lines()), file=sys.stderr)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
