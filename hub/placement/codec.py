"""Values of placement as plain JSON values, and back, field by field.

What equals its field's default is left out, and is the default again when it is read: whoever changes
a default makes older files say something else, and raises `journal.FORMAT`. Invariant: `read` of what
`write` gave is the same value; a field that is not known, is missing or is of another kind raises
ValueError with the path to it. No field of any value is named here.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any, str], Any]  # (what was said, the path to it): the value, or ValueError
MAX_NUMBER = 1 << 62  # beyond any time in ms, size in MiB or id: what is larger is a fault of the file


def write(value: Any) -> Any:
    """`value` as what JSON knows: values as objects, sets as sorted lists."""
    if is_dataclass(value):
        said = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: write(one) for field, one in said if not _is_default(field, one)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [write(one) for one in value]
    if isinstance(value, Mapping):
        return {key: write(one) for key, one in value.items()}
    return value


def read(kind: type[T], said: Any, path: str = "") -> T:
    """The value of `kind` that `said` tells; `path` begins what an error names. Raises ValueError."""
    return cast(T, _reader(cast(Any, kind))(said, path))


def _is_default(field: "Field[Any]", value: Any) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    return field.default_factory is not MISSING and bool(value == field.default_factory())


@cache
def _reader(kind: Any) -> Reader:
    """How a field of this kind is read. Raises TypeError for a kind that no value of placement has."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _or_none(next(one for one in inner if one is not type(None)))
    if origin is Literal:
        return _one_of(inner)
    if origin is tuple:
        return _list_of(inner[0], tuple) if inner[-1] is Ellipsis else _row_of(inner)
    if origin is frozenset:
        return _list_of(inner[0], frozenset)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_of(inner[1])
    if is_dataclass(kind):
        return _value_of(cast(type, kind))
    return _plain(kind)


def _plain(kind: type) -> Reader:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
    if kind not in names:
        raise TypeError(f"{kind} is no kind of field that is written here")
    known = (int, float) if kind is float else (kind,)

    def reader(said: Any, path: str) -> Any:
        if type(said) not in known:  # not isinstance: True is no number
            raise ValueError(f"{path} is not {names[kind]}")
        if kind in (int, float) and not -MAX_NUMBER <= said <= MAX_NUMBER:
            raise ValueError(f"{path} is beyond every bound")
        return kind(said)

    return reader


def _or_none(kind: Any) -> Reader:
    inner = _reader(kind)
    return lambda said, path: None if said is None else inner(said, path)


def _one_of(words: tuple[Any, ...]) -> Reader:
    def reader(said: Any, path: str) -> Any:
        if said not in words:
            raise ValueError(f"{path} is none of {', '.join(map(str, words))}")
        return said

    return reader


def _list_of(kind: Any, gather: Callable[[list[Any]], Any]) -> Reader:
    inner = _reader(kind)

    def reader(said: Any, path: str) -> Any:
        if not isinstance(said, list):
            raise ValueError(f"{path} is not a list")
        return gather([inner(one, f"{path}[{number}]") for number, one in enumerate(said)])

    return reader


def _row_of(kinds: tuple[Any, ...]) -> Reader:
    inner = [_reader(kind) for kind in kinds]

    def reader(said: Any, path: str) -> Any:
        if not isinstance(said, list) or len(said) != len(inner):
            raise ValueError(f"{path} is not a list of {len(inner)}")
        return tuple(one(part, f"{path}[{n}]") for n, (one, part) in enumerate(zip(inner, said, strict=True)))

    return reader


def _mapping_of(kind: Any) -> Reader:
    inner = _reader(kind)

    def reader(said: Any, path: str) -> Any:
        if not isinstance(said, dict):
            raise ValueError(f"{path} is not an object")
        return {key: inner(one, f"{path}.{key}") for key, one in said.items()}

    return reader


def _value_of(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    needed = [
        field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING
    ]

    def reader(said: Any, path: str) -> Any:
        if not isinstance(said, dict):
            raise ValueError(f"{path or 'this'} is not an object")
        at = f"{path}." if path else ""
        for name in needed:
            if name not in said:
                raise ValueError(f"{at}{name} is missing")
        for name in said:
            if name not in readers:
                raise ValueError(f"{at}{name} is not known")
        return kind(**{name: readers[name](one, at + name) for name, one in said.items()})

    return reader
