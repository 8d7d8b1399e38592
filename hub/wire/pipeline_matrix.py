"""The matrix of a job: which jobs it becomes, and `${{ matrix.KEY }}` filled in.

A matrix is a product: every value of the first key with every value of the second, in the order of
the file. Values are text as written (`3.10` stays "3.10"). Filling in is plain replacement in every
text of the job but the matrix itself; there is no other expression, and there must not be: what a
job does is to be read in the file.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hub.wire.base import MAX_JOBS
from hub.wire.pipeline_yaml import NODE_WEIGHT, Faults, Node, join, quoted

_EXPRESSION = re.compile(r"\$\{\{(.{0,200}?)\}\}")
_OPEN = "${{"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value for each key of a matrix; no values: the job has no matrix."""

    values: Mapping[str, str]

    def job_name(self, name: str) -> str:
        """The name of the job for this choice: `test-3.11-x86_64`."""
        words = (_NOT_IN_A_NAME.sub("-", value).strip("-") or "-" for value in self.values.values())
        return "-".join((name, *words))

    def env(self) -> dict[str, str]:
        """The choice as variables of the job: `MATRIX_PYTHON`."""
        return {f"MATRIX_{key.upper()}": value for key, value in self.values.items()}


def choices(job: Node, path: str, faults: Faults) -> list[Choice]:
    """Every choice of a job's matrix; one without values where there is none; [] where it is unsound."""
    matrix = job.entries.get("matrix")
    if matrix is None:
        return [Choice(values={})]
    where = join(path, "matrix")
    if faults.under(where):
        return []
    names: dict[str, str] = {}
    for key in matrix.entries:
        if (other := names.setdefault(key.upper(), key)) != key:
            text = f"differs from {quoted(other)} in its case only; both would be MATRIX_{key.upper()}"
            faults.add(join(where, key), text, matrix.key_lines[key])
            return []
    count = math.prod(len(values.items) for values in matrix.entries.values())
    if count > MAX_JOBS:
        faults.add(where, f"makes {count} jobs; {MAX_JOBS} are the most of one run", matrix.line)
        return []
    lists = [[item.text for item in values.items] for values in matrix.entries.values()]
    return [
        Choice(values=dict(zip(matrix.entries, chosen, strict=True))) for chosen in itertools.product(*lists)
    ]


def fill(node: Node, choice: Choice, path: str, faults: Faults) -> Node:
    """`node` with every expression replaced; the same node where there is none."""

    def text_of(node: Node, path: str) -> Node:
        return _fill_text(node, choice, path, faults)

    return _map(node, path, text_of)


def _map(node: Node, path: str, change: Callable[[Node, str], Node]) -> Node:
    if node.kind == "text":
        return change(node, path) if _OPEN in node.text else node
    if node.kind == "list":
        items = tuple(_map(item, f"{path}[{index}]", change) for index, item in enumerate(node.items))
        if all(new is old for new, old in zip(items, node.items, strict=True)):
            return node
        grown = sum(new.weight - old.weight for new, old in zip(items, node.items, strict=True))
        return replace(node, items=items, weight=node.weight + grown)
    if node.kind == "mapping":
        entries = {
            key: value if key == "matrix" else _map(value, join(path, key), change)
            for key, value in node.entries.items()
        }
        if all(entries[key] is value for key, value in node.entries.items()):
            return node
        grown = sum(entries[key].weight - value.weight for key, value in node.entries.items())
        return replace(node, entries=entries, weight=node.weight + grown)
    return node


def _fill_text(node: Node, choice: Choice, path: str, faults: Faults) -> Node:
    known = {f"matrix.{key}": value for key, value in choice.values.items()}

    def value_of(found: re.Match[str]) -> str:
        word = found[1].strip()
        if word in known:
            return known[word]
        if not known:
            text = f"asks for {quoted(word)}, but there is no matrix here"
        else:
            text = f"asks for {quoted(word)}; here is {', '.join(known)}"
        faults.add(path, text, node.line, faults.nearest(word, known))
        return found[0]

    if _OPEN in _EXPRESSION.sub("", node.text):
        faults.add(path, f"opens {quoted(_OPEN)} and does not close it with {quoted('}}')}", node.line)
        return node
    text = _EXPRESSION.sub(value_of, node.text)
    return replace(node, text=text, weight=NODE_WEIGHT + len(text))
