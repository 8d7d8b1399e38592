"""Commands from functions: what a function takes is what its command takes.

A thin layer over argparse, which costs 8 ms: the usual libraries for this load a validation library
for the first option and double the time that `shunter run view 42` takes. The invariant: --hub,
--token and --json may stand before or after the subcommand, and what stands last wins.

A parameter annotated `Annotated[kind, Argument(…)]` is a word that must be given, `Annotated[kind,
Option("--name", …)]` an option; kinds are str, int, Path, bool (a switch), a Literal (one of), and
list[str] (may be repeated). A first parameter called `session` gets the global options.
"""

import argparse
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from hub.cli.session import Session

Command = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word that must be given. `low` and `high` bound a number."""

    metavar: str
    help: str = ""
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """An option by its long name, and a short one. `low` and `high` bound a number."""

    name: str
    short: str | None = None
    metavar: str | None = field(default=None, kw_only=True)
    help: str = field(default="", kw_only=True)
    low: int | None = field(default=None, kw_only=True)
    high: int | None = field(default=None, kw_only=True)


@dataclass(slots=True)
class Group:
    """Commands under one name. `default` is what the name alone does; None: show its help, exit 2."""

    name: str
    help: str
    default: Command | None = None
    _members: list[tuple[str, "Command | Group"]] = field(default_factory=list)

    def command(self, name: str) -> Callable[[Command], Command]:
        """Make the function below a command of this group."""

        def add(function: Command) -> Command:
            self.add(name, function)
            return function

        return add

    def add(self, name: str, member: "Command | Group") -> None:
        """Add a command or a group; help shows them in this order."""
        self._members.append((name, member))

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Tell the parser all commands of this group."""
        _declare_shared(parser)
        parser.set_defaults(call=self.default or _helper(parser))
        places = parser.add_subparsers(metavar="COMMAND", title="commands")
        for name, member in self._members:
            text = member.help if isinstance(member, Group) else inspect.cleandoc(member.__doc__ or "")
            below = places.add_parser(
                name,
                help=text.partition("\n")[0],
                description=text,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            if isinstance(member, Group):
                member.declare(below)
            else:
                _declare(below, member)


def run(group: Group, words: Sequence[str], version: Callable[[], str]) -> None:
    """Carry out the command that `words` name. Raises CliError; SystemExit(2) where they are wrong."""
    nothing = argparse.SUPPRESS
    parser = argparse.ArgumentParser(prog=group.name, description=group.help, allow_abbrev=False)
    parser.add_argument(
        "--version", action=_Version, text=version, dest=nothing, default=nothing, help="print the version"
    )
    group.declare(parser)
    given = vars(parser.parse_args(words))
    call: Command = given.pop("call")
    session = Session(
        hub=given.pop("hub", None), token=given.pop("token", None), as_json=given.pop("as_json", False)
    )
    if "session" in inspect.signature(call).parameters:
        call(session, **given)
    else:
        call(**given)


def _declare(parser: argparse.ArgumentParser, command: Command) -> None:
    """Tell the parser what the command takes."""
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name == "session":
            _declare_shared(parser)
            continue
        assert get_origin(parameter.annotation) is Annotated, f"{parameter} says nothing of its words"
        kind, word = get_args(parameter.annotation)
        if isinstance(word, Argument):
            parser.add_argument(
                parameter.name, metavar=word.metavar, help=word.help, **_reading(kind, word, parameter)
            )
        else:
            names = [name for name in (word.short, word.name) if name]
            help_text = word.help
            if parameter.default is not None and not isinstance(parameter.default, bool):
                help_text += f" [{parameter.default}]"
            parser.add_argument(
                *names,
                dest=parameter.name,
                help=help_text,
                default=parameter.default,
                **_reading(kind, word, parameter),
            )
    parser.set_defaults(call=command)


def _declare_shared(parser: argparse.ArgumentParser) -> None:
    """The global options, which leave no trace where they are not given: an earlier one then holds."""
    shared = parser.add_argument_group("everywhere")
    nothing = argparse.SUPPRESS
    shared.add_argument(
        "--hub",
        metavar="URL",
        default=nothing,
        help="the hub (or SHUNTER_URL, or what `shunter login` stored)",
    )
    shared.add_argument(
        "--token", default=nothing, help="the token (or SHUNTER_TOKEN, which other users cannot see)"
    )
    shared.add_argument(
        "--json", dest="as_json", action="store_true", default=nothing, help="print what the API gives"
    )


def _reading(kind: Any, word: Argument | Option, parameter: inspect.Parameter) -> dict[str, Any]:
    """How argparse reads a value of this kind."""
    if get_origin(kind) in (Union, types.UnionType):  # `kind | None`: None is only the default
        kind = next(each for each in get_args(kind) if each is not type(None))
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction if parameter.default else "store_true"}
    how: dict[str, Any] = {"metavar": word.metavar} if isinstance(word, Option) and word.metavar else {}
    if isinstance(word, Argument) and parameter.default is None:
        how["nargs"] = "?"
    if get_origin(kind) is Literal:
        return {**how, "choices": get_args(kind)}
    if get_origin(kind) is list:
        return {**how, "action": "append"}
    assert kind in (str, int, Path), f"{kind} is no kind of word"
    return {**how, "type": _number(word) if kind is int else kind}


def _number(word: Argument | Option) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if (word.low is not None and value < word.low) or (word.high is not None and value > word.high):
            bounds = f"{'' if word.low is None else word.low}..{'' if word.high is None else word.high}"
            raise argparse.ArgumentTypeError(f"{value} is not within {bounds}")
        return value

    return number


def _helper(parser: argparse.ArgumentParser) -> Command:
    def show_help() -> NoReturn:
        parser.print_help()
        raise SystemExit(2)

    return show_help


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, *, text: Callable[[], str], **given: Any) -> None:
        super().__init__(**given, nargs=0)
        self._text = text

    def __call__(self, *_: object) -> NoReturn:
        print(self._text())
        raise SystemExit(0)
