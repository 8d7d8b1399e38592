"""The shape of the pipeline file: its published JSON Schema.

Invariant: the shape is written once, here; `pipeline_check` walks a file by this very schema, so that
what is published and what is taken cannot drift apart. Use a new keyword here only together with its
check there. What no schema can say (a need that names no job, a circle, two tiers in one job) is
`hub.wire.pipeline`'s.

The annotation `x-says` holds the sentence for whoever wrote the value wrong.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hub.wire.base import MAX_JOBS, MAX_LABELS, MAX_STEPS, TIERS

Schema = dict[str, Any]

MAX_SANDBOXES = MAX_JOBS  # a sandbox that no job uses is of no use
MAX_ENV = 500  # names; an environment of Linux holds 2 MiB in all, runners add their own
MAX_SCRIPT = 30_000  # characters of a command or a value: one argument of Linux holds 128 KiB, 4 bytes each
MAX_MATRIX_KEYS = 6  # more give more than MAX_JOBS jobs even with three values each
MAX_GLOBS = 100  # of artifacts, or of one kind of report
MAX_RETRIES = 2  # three attempts in all: a job that costs three machines needs a person
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


def _machine(wrap: Callable[[Schema], Schema]) -> dict[str, Schema]:
    """The keys of a sandbox, which a job may also state itself; `wrap` says what its texts may hold."""
    size = wrap(_text(SIZE, 20, "must be a size with its unit: 512MiB, 2GiB or 1TiB"))
    image = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}|cas://blake3/[0-9a-f]{64})$"
    return {
        "image": wrap(
            _text(
                image,
                200,
                "must be an image's name, as debian-12, or cas://blake3/ and 64 hex digits",
            )
        ),
        "tier": wrap({"type": "string", "enum": list(TIERS)}),
        "arch": wrap(_text(r"^[a-z0-9_]+$", 32, "must be an architecture, as x86_64 or aarch64")),
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
        "sandbox": _record(_machine(lambda strict: strict), (), "where steps run"),
        "job": _job(ref, label),
    }


def _job(ref: Schema, label: Schema) -> Schema:
    return _record(
        {
            "sandbox": ref | {"description": "keys beside it replace the sandbox's own"},
            **_machine(_templated),
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
    )


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
