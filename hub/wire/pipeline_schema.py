"""The shape of the pipeline file: its published JSON Schema, and the check that follows it.

Invariant: the shape is written once, here. `check` walks a file by the very schema that is
published, so the two cannot drift apart; it knows only the keywords that the schema uses. What no
schema can say (a need that names no job, a cycle, two tiers in one job) is `hub.wire.pipeline`'s.

The annotation `x-says` holds the sentence for whoever wrote the value wrong.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from hub.wire.base import MAX_JOBS, MAX_LABELS, MAX_STEPS, TIERS
from hub.wire.pipeline_yaml import Faults, Kind, Node, a, join, quoted

Schema = dict[str, Any]

MAX_SANDBOXES = MAX_JOBS  # a sandbox that no job uses is of no use
MAX_ENV = 500  # names; an environment of Linux holds 2 MiB in all, runners add their own
MAX_SCRIPT = 30_000  # characters of a command or a value: one argument of Linux holds 128 KiB, 4 bytes each
MAX_MATRIX_KEYS = 6  # more give more than MAX_JOBS jobs even with three values each
MAX_GLOBS = 100  # of artifacts, or of one kind of report
MAX_RETRIES = 10  # a machine that failed ten times in a row needs a person
MAX_LIMIT = 1000  # jobs of one group at a time: more is no limit
MAX_CPUS = 100_000

# A control or bidirectional override character can forge what a terminal or a page shows.
_FORGES = r"\x7f-\x9f\u202a-\u202e\u2066-\u2069"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_LABEL = r"^[A-Za-z0-9][A-Za-z0-9._:/=+-]*$"
_LINE = rf"^[^\x00-\x1f{_FORGES}]*$"
_SCRIPT = rf"^[^\x00-\x08\x0b-\x1f{_FORGES}]*$"
# At most 12, 9 and 6 digits, so that no size passes MAX_MIB (1 EiB).
SIZE = r"^([1-9][0-9]{0,11}MiB|[1-9][0-9]{0,8}GiB|[1-9][0-9]{0,5}TiB)$"
DURATION = r"^(?=[0-9])([0-9]{1,3}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"
_GLOB = rf"^(?!/)(?!(.*/)?\.\.(/|$))[^\x00-\x1f{_FORGES}\\]+$"
_TEMPLATE = r"\$\{\{"


def _text(pattern: str, longest: int, says: str, description: str = "") -> Schema:
    schema: Schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": longest,
        "pattern": pattern,
        "x-says": says,
    }
    return schema | ({"description": description} if description else {})


def _templated(strict: Schema) -> Schema:
    """`strict`, or text that becomes so when `${{ matrix.… }}` is filled in."""
    says = "must hold an expression, `${{ matrix.KEY }}`"
    return {"anyOf": [strict, {"type": "string", "maxLength": 1000, "pattern": _TEMPLATE, "x-says": says}]}


def _list(items: Schema, longest: int, shortest: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": shortest, "maxItems": longest}


def _record(
    properties: Mapping[str, Schema], required: tuple[str, ...] = (), description: str = ""
) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema | ({"description": description} if description else {})


def _named(values: Schema, names: Schema, most: int, least: int = 0) -> Schema:
    return {
        "type": "object",
        "propertyNames": names,
        "additionalProperties": values,
        "minProperties": least,
        "maxProperties": most,
    }


def _machine() -> dict[str, Schema]:
    """The keys of a sandbox, which a job may also state itself."""
    size = _templated(_text(SIZE, 20, "must be a size with its unit: 512MiB, 2GiB or 1TiB"))
    image = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}|cas://blake3/[0-9a-f]{64})$"
    return {
        "image": _templated(
            _text(
                image,
                200,
                "must be an image's name, as debian-12, or cas://blake3/ and 64 hex digits",
            )
        ),
        "tier": _templated({"type": "string", "enum": list(TIERS)}),
        "arch": _templated(_text(r"^[a-z0-9_]+$", 32, "must be an architecture, as x86_64 or aarch64")),
        "memory": size,
        "cpus": {"type": "integer", "minimum": 1, "maximum": MAX_CPUS},
        "disk": size,
        "network": {"type": "boolean", "description": "absent: as the runner is set"},
    }


def _definitions() -> dict[str, Schema]:
    name = _text(_NAME, 100, "must be a name: a letter or digit, then letters, digits, `.`, `_` and `-`")
    ref = _templated(name)
    label = _text(_LABEL, 100, "must be a label: a letter or digit, then letters, digits and any of ._:/=+-")
    script = _text(_SCRIPT, MAX_SCRIPT, "must be text without control characters")
    variable = _text(r"^[A-Za-z_][A-Za-z0-9_]*$", 200, "must be a variable's name: letters, digits and `_`")
    value: Schema = {
        "type": ["string", "number", "boolean"],
        "maxLength": MAX_SCRIPT,
        "pattern": _SCRIPT,
        "x-says": "must be text, a number, or true or false, without control characters",
    }
    choice: Schema = {
        "type": ["string", "number", "boolean"],
        "minLength": 1,
        "maxLength": 200,
        "pattern": rf"^(?!.*{_TEMPLATE})[^\x00-\x1f{_FORGES}]*$",
        "x-says": "must be one line of text, a number, or true or false, without `${{`",
    }
    line = _text(_LINE, 200, "must be one line of text")
    glob = _text(_GLOB, 1000, "must be a path below the job's folder: not absolute, and without `..`")
    command: Schema = script | {"type": ["string", "number", "boolean"], "description": "a shell command"}
    step = _record(
        {"run": command, "name": line, "sandbox": ref, "env": {"$ref": "#/$defs/env"}},
        ("run",),
        "one command, in the job's sandbox or in one of its own",
    )
    key = _text(r"^[A-Za-z][A-Za-z0-9_]*$", 50, "must be a word: a letter, then letters, digits and `_`")
    return {
        "name": name,
        "env": _named(value, variable, MAX_ENV),
        "duration": _text(DURATION, 20, "must be a duration: 30s, 30m, 2h or 1h30m"),
        "globs": _list(glob, MAX_GLOBS),
        "step": {"anyOf": [command, step]},
        "matrix": _named(_list(choice, MAX_JOBS, 1), key, MAX_MATRIX_KEYS, 1),
        "concurrency": _record(
            {
                "group": line,
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 1},
                "cancel_running": {"type": "boolean", "default": False},
            },
            ("group",),
        ),
        "reports": _record({"junit": {"$ref": "#/$defs/globs"}, "coverage": {"$ref": "#/$defs/globs"}}),
        "sandbox": _record(_machine(), (), "where steps run"),
        "job": _record(
            {
                "sandbox": ref | {"description": "keys beside it replace the sandbox's own"},
                **_machine(),
                "labels": _list(_templated(label), MAX_LABELS),
                "needs": _list(ref, MAX_JOBS),
                "env": {"$ref": "#/$defs/env"},
                "steps": _list({"$ref": "#/$defs/step"}, MAX_STEPS, 1),
                "artifacts": {"$ref": "#/$defs/globs"},
                "reports": {"$ref": "#/$defs/reports"},
                "timeout": {"$ref": "#/$defs/duration"},
                "retries": {"type": "integer", "minimum": 0, "maximum": MAX_RETRIES, "default": 0},
                "matrix": {"$ref": "#/$defs/matrix"},
                "concurrency": {"$ref": "#/$defs/concurrency"},
                "keep": {"type": "string", "enum": ["on-failure", "never"]},
            },
            ("steps",),
        ),
    }


def json_schema() -> Schema:
    """The JSON Schema (2020-12) of the pipeline file; a new copy at each call."""
    name = {"$ref": "#/$defs/name"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Shunter pipeline",
        **_record(
            {
                "version": {"const": 1},
                "env": {"$ref": "#/$defs/env"},
                "timeout": {"$ref": "#/$defs/duration"},
                "sandboxes": _named({"$ref": "#/$defs/sandbox"}, name, MAX_SANDBOXES),
                "jobs": _named({"$ref": "#/$defs/job"}, name, MAX_JOBS, 1),
            },
            ("version", "jobs"),
        ),
        "$defs": _definitions(),
    }


_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "object": ("mapping",),
    "array": ("list",),
    "string": ("text",),
    "number": ("number",),
    "integer": ("number",),
    "boolean": ("boolean",),
}
_MUST: Mapping[str, str] = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


class Checker:
    """Follows the schema through a tree of nodes and notes every fault."""

    def __init__(self, faults: Faults, schema: Schema | None = None) -> None:
        self._faults = faults
        self._schema = schema or json_schema()

    def check(self, node: Node, path: str, definition: str | None = None) -> None:
        """Check `node` by the whole schema, or by one of its definitions ("job")."""
        schema = self._schema if definition is None else self._schema["$defs"][definition]
        self._check(node, schema, path, node.line)

    def _check(self, node: Node, schema: Schema, path: str, line: int) -> None:
        if "$ref" in schema:
            schema = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            schema = self._branch(node, schema["anyOf"])
        if "const" in schema:
            if node.kind != "number" or node.text != str(schema["const"]):
                self._faults.add(path, f"must be {schema['const']}", node.line, str(schema["const"]))
            return
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(node.kind in _KINDS[name] for name in types):
            self._faults.add(path, _not_kind(node, types, schema), node.line, _guess(node, schema))
        elif node.kind == "mapping":
            self._mapping(node, schema, path)
        elif node.kind == "list":
            self._list(node, schema, path)
        elif types == ["integer"]:
            self._integer(node, schema, path)
        elif node.kind == "text":
            self._text(node.text, schema, path, line)

    def _branch(self, node: Node, branches: list[Schema]) -> Schema:
        """The branch that takes the node, else the first that is of its kind, else the first."""
        fitting = [b for b in branches if node.kind in _kinds(b)]
        for branch in fitting:
            trial = Checker(Faults(), self._schema)
            if len(fitting) > 1:
                trial._check(node, branch, "", node.line)
            if not trial._faults:
                return branch
        return (fitting or branches)[0]

    def _mapping(self, node: Node, schema: Schema, path: str) -> None:
        properties = schema.get("properties", {})
        self._count(len(node.entries), schema, "Properties", path, node.line)
        for key in schema.get("required", ()):
            if key not in node.entries:
                self._faults.add(path, f"lacks {quoted(key)}, which it needs", node.line)
        for key, value in node.entries.items():
            where, line = join(path, key), node.key_lines[key]
            if "propertyNames" in schema:
                self._check(Node(kind="text", line=line, text=key), schema["propertyNames"], where, line)
            below = properties.get(key, schema["additionalProperties"])
            if below is False:
                near = self._faults.nearest(key, properties)
                known = "" if near else f"; the keys here are {', '.join(properties)}"
                self._faults.add(where, f"unknown key {quoted(key)}{known}", line, near)
            else:
                self._check(value, below, where, line)

    def _list(self, node: Node, schema: Schema, path: str) -> None:
        self._count(len(node.items), schema, "Items", path, node.line)
        for index, item in enumerate(node.items[: schema["maxItems"]]):
            self._check(item, schema["items"], f"{path}[{index}]", item.line)

    def _count(self, count: int, schema: Schema, what: str, path: str, line: int) -> None:
        least, most = f"min{what}", f"max{what}"
        if count < schema.get(least, 0):
            self._faults.add(path, "is empty: leave it out or fill it in" if path else "is empty", line)
        if count > schema.get(most, count):
            self._faults.add(path, f"has {count} entries; {schema[most]} are the most", line)

    def _integer(self, node: Node, schema: Schema, path: str) -> None:
        if not _INTEGER.fullmatch(node.text):
            self._faults.add(path, "must be a whole number", node.line)
        elif not schema["minimum"] <= int(node.text) <= schema["maximum"]:
            text = f"must be a whole number from {schema['minimum']} to {schema['maximum']}"
            self._faults.add(path, text, node.line)

    def _text(self, text: str, schema: Schema, path: str, line: int) -> None:
        if "enum" in schema:
            if text not in schema["enum"]:
                words = ", ".join(schema["enum"])
                self._faults.add(
                    path, f"must be one of {words}", line, self._faults.nearest(text, schema["enum"])
                )
        elif len(text) > schema["maxLength"]:
            self._faults.add(path, f"has {len(text)} characters; {schema['maxLength']} are the most", line)
        elif len(text) < schema.get("minLength", 0):
            self._faults.add(path, "is empty", line)
        elif not _matches(schema["pattern"], text):
            node = Node(kind="text", line=line, text=text)
            self._faults.add(path, f"{schema['x-says']}; not {quoted(text)}", line, _guess(node, schema))


def _matches(pattern: str, text: str) -> bool:
    """As JSON Schema matches: anywhere, and `$` is the end of the text, not the line before it."""
    return re.search(pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else ""), text) is not None


def _kinds(schema: Schema) -> set[str]:
    types: list[Literal["object"]] | str = schema["type"]
    return {kind for name in ([types] if isinstance(types, str) else types) for kind in _KINDS[name]}


def _not_kind(node: Node, types: list[str], schema: Schema) -> str:
    if node.kind == "empty":
        return "is empty: leave it out or fill it in"
    if "x-says" in schema:
        quotes = (
            ""
            if node.kind in ("mapping", "list") or schema.get("pattern") in (SIZE, DURATION)
            else ", in quotes"
        )
        return f"{schema['x-says']}{quotes}; not {a(node.kind)}"
    return f"must be {' or '.join(_MUST[name] for name in types)}, not {a(node.kind)}"


_UNITS: Mapping[str, str] = {"m": "MiB", "g": "GiB", "t": "TiB", "": "MiB"}


def _guess(node: Node, schema: Schema) -> str | None:
    """What a size or a duration without its right unit, or a word as a flag, was meant to be."""
    word = re.fullmatch(r"\s*([1-9][0-9]{0,5})\s*([a-zA-Z]*)\s*", node.text)
    if schema.get("pattern") == SIZE and word:
        unit = _UNITS.get(word[2].lower().removesuffix("b").removesuffix("i"))
        return f"{word[1]}{unit}" if unit else None
    if schema.get("pattern") == DURATION and word:
        return word[1] + (word[2][:1].lower() if word[2][:1].lower() in ("h", "m", "s") else "s")
    if schema.get("type") == "boolean" and node.text.lower() in ("yes", "on", "no", "off"):
        return "true" if node.text.lower() in ("yes", "on") else "false"
    return None
