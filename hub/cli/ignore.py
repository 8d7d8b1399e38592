"""What git ignores, decided for one entry of a folder at a time.

A folder is walked from its top, and each entry is asked for by itself: whoever is below an ignored
folder is never asked for. The usual libraries answer for whole paths instead, where `!a/` speaks for
all that is below `a`; git lets it speak for `a` alone. A test holds this to git itself on random trees.
The syntax: gitignore(5).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CLASSES = {  # POSIX classes within brackets
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\s",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a `.gitignore`."""

    ignores: bool  # False: `!`, which takes back what an earlier rule said
    folders_only: bool
    by_name: bool  # the pattern has no slash: it is held against the name alone, at any depth
    pattern: re.Pattern[str]


def read(lines: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of a file, in its order; a line that can never match gives none."""
    return tuple(rule for line in lines if (rule := _rule(line)) is not None)


def verdict(rules: tuple[Rule, ...], path: str, *, is_folder: bool) -> bool | None:
    """Whether the entry at `path`, below the rules' folder, is ignored; None: no rule speaks of it."""
    name = path.rpartition("/")[2]
    for rule in reversed(rules):
        if rule.folders_only and not is_folder:
            continue
        if rule.pattern.fullmatch(name if rule.by_name else path):
            return rule.ignores
    return None


def _rule(line: str) -> Rule | None:
    line = line.removesuffix("\n").removesuffix("\r")
    if line.startswith("#"):
        return None
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line)
    ignores = not line.startswith("!")
    text = line if ignores else line[1:]
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    by_name = "/" not in text
    regex = _regex(text.removeprefix("/"))
    if regex is None:
        return None
    try:
        pattern = re.compile(regex, re.DOTALL)
    except re.error:  # a range such as [z-a]: git matches nothing with it
        return None
    return Rule(ignores=ignores, folders_only=folders_only, by_name=by_name, pattern=pattern)


def _regex(text: str) -> str | None:
    """A gitignore pattern as a regular expression; None where it ends within an escape or a bracket."""
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "*":
            end = at
            while end < len(text) and text[end] == "*":
                end += 1
            # Two or more stars between slashes stand for folders; anywhere else they are one star.
            alone = (
                end - at >= 2 and (at == 0 or text[at - 1] == "/") and (end == len(text) or text[end] == "/")
            )
            if alone and end < len(text):
                out, end = out + "(?:.*/)?", end + 1
            else:
                out += ".*" if alone else "[^/]*"
            at = end
        elif char == "?":
            out, at = out + "[^/]", at + 1
        elif char == "[":
            found = _bracket(text, at)
            if found is None:
                return None
            piece, at = found
            out += piece
        elif char == "\\":
            if at + 1 == len(text):
                return None
            out, at = out + re.escape(text[at + 1]), at + 2
        else:
            out, at = out + re.escape(char), at + 1
    return out


def _bracket(text: str, at: int) -> tuple[str, int] | None:
    """The bracket that opens at `at`, and where what follows it begins; None: it never closes."""
    at += 1
    negated = at < len(text) and text[at] in "!^"
    at += negated
    out, first = "", True
    while at < len(text):
        char = text[at]
        if char == "]" and not first:
            # A slash is never matched by a bracket.
            return (f"[^/{out}]" if negated else f"(?!/)[{out}]"), at + 1
        first = False
        if text.startswith("[:", at) and (end := text.find(":]", at)) > 0:
            name = text[at + 2 : end]
            if name not in _CLASSES:
                return None
            out, at = out + _CLASSES[name], end + 2
            continue
        if char == "\\":
            at += 1
            if at == len(text):
                return None
            char = text[at]
        elif char == "-" and out and at + 1 < len(text) and text[at + 1] != "]":
            out, at = out + "-", at + 1
            continue
        out, at = out + re.escape(char), at + 1
    return None
