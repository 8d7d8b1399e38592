"""The check of a pipeline file's shape, by the schema that is published.

Invariant: this knows nothing of pipelines, only the few keywords that `pipeline_schema` uses, and
notes every fault at its line. A rule about one key belongs into the schema, never here.
"""

import re
from collections.abc import Mapping
from typing import Literal

from hub.wire.pipeline_schema import DURATION, SIZE, Schema, json_schema
from hub.wire.pipeline_yaml import Faults, Kind, Node, a, join, quoted

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
