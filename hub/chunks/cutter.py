"""Cutting a file by what it holds, so that an insertion moves one boundary and not all that follow.

A cutter is a named algorithm with its parameters. Invariant: a name stands for the same boundaries for
ever, on every machine and however the bytes arrive; other parameters get another name. Two cutters never
agree on boundaries, so a hub has one, tells it to its clients, and writes it in each manifest.

Not to be done here: hashing, and falling back silently to slow code.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from io import StringIO
from types import MappingProxyType
from typing import Any, BinaryIO

KIB = 1024
# What is held of a file while it is cut: many chunks, so that the rest moved to the front of the buffer
# (less than one chunk) is a small part of it; little enough to stay in a processor's cache (1.3 times as
# fast as 4 MiB).
BUFFER_BYTES = KIB * KIB
NORMALIZATION = 1  # how strongly lengths are drawn to the average (FastCDC 2020, 3.5); 2 and 3 share less


class SlowCutter(RuntimeError):
    """The cutter's compiled code is not here: what there is, if anything, is some 500 times as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutter:
    """A named algorithm with its parameters, in bytes. Only a file's last chunk is below `min_bytes`."""

    name: str
    min_bytes: int
    average_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The library behind a cutter."""

    library: str
    install: str
    load: Callable[[], Any]
    lengths: Callable[[Any, Cutter, memoryview], Iterator[int]]  # of successive chunks of a buffer


def _load_2020() -> Any:
    import pyfastcdc

    return pyfastcdc.FastCDC


def _load_2016() -> Any:
    import fastcdc

    return fastcdc.fastcdc


def _lengths_2020(code: Any, cutter: Cutter, view: memoryview) -> Iterator[int]:
    made = code(
        cutter.average_bytes,
        min_size=cutter.min_bytes,
        max_size=cutter.max_bytes,
        normalized_chunking=NORMALIZATION,
    )
    return (chunk.length for chunk in made.cut_buf(view))


def _lengths_2016(code: Any, cutter: Cutter, view: memoryview) -> Iterator[int]:
    chunks = code(view, cutter.min_bytes, cutter.average_bytes, cutter.max_bytes)
    return (chunk.length for chunk in chunks)


def _sizes_64k(name: str) -> Cutter:
    # 64 KiB: four times as large sends half as much again after a rebuild, four times as small makes the
    # manifest four times as long and saves a quarter.
    return Cutter(name=name, min_bytes=16 * KIB, average_bytes=64 * KIB, max_bytes=256 * KIB)


CUTTERS: Mapping[str, Cutter] = MappingProxyType(
    {name: _sizes_64k(name) for name in ("fastcdc2020-64k", "fastcdc2016-64k")}
)
DEFAULT_CUTTER = "fastcdc2020-64k"
_CODES: Mapping[str, _Code] = MappingProxyType(
    {
        "fastcdc2020-64k": _Code(
            library="pyfastcdc", install="pyfastcdc>=0.3", load=_load_2020, lengths=_lengths_2020
        ),
        "fastcdc2016-64k": _Code(
            library="fastcdc", install="fastcdc>=1.7", load=_load_2016, lengths=_lengths_2016
        ),
    }
)


def cutter(name: str) -> Cutter:
    """The cutter of that name. ValueError where this version has none such."""
    try:
        return CUTTERS[name]
    except KeyError:
        known = ", ".join(CUTTERS)
        raise ValueError(f"no cutter {name!r:.80}: this version knows {known}") from None


def require_native(cutter: Cutter, *, allow_slow: bool = False) -> None:
    """Refuse to cut with anything but compiled code, which both libraries do with at most a warning.

    To be asked once, at the start of whatever cuts. Raises SlowCutter, which says what to install;
    with `allow_slow` only where there is no code at all.
    """
    code = _CODES[cutter.name]
    mend = f"pip install --force-reinstall --only-binary :all: '{code.install}'"
    try:
        compiled = _is_compiled(_load(code))
    except ImportError as error:
        raise SlowCutter(f"the cutter {cutter.name} is not installed ({error}); {mend}") from error
    if not compiled and not allow_slow:
        raise SlowCutter(
            f"the cutter {cutter.name} runs as pure Python, at some 3 MB/s: {code.library} has no compiled "
            f"code for this Python; {mend} (or without --only-binary, with a C compiler), "
            "or allow slow cutting"
        )


def cut(cutter: Cutter, file: BinaryIO) -> Iterator[bytes]:
    """The chunks of `file` from where it stands to its end, in order; none for an empty file.

    Memory: one buffer of BUFFER_BYTES, whatever the file's length. Each chunk is the caller's to keep.
    `file` may be a pipe: short reads move no boundary. Raises what reading raises, BlockingIOError for a
    file that has nothing now, and ImportError where the cutter is not installed.
    """
    code = _CODES[cutter.name]
    function = _load(code)
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    held, ended = 0, False
    while not ended:
        got = _read_into(file, view[held:])
        ended = got == 0
        held += got
        if held < BUFFER_BYTES and not ended:
            continue
        # A boundary depends on nothing beyond the longest chunk, so a chunk is final while that much
        # follows its start; what is left goes to the front, to be cut with what comes after it.
        start = 0
        lengths = code.lengths(function, cutter, view[:held])
        while start < held and (ended or held - start >= cutter.max_bytes):
            length = next(lengths)
            yield bytes(view[start : start + length])
            start += length
        buffer[: held - start] = buffer[start:held]
        held -= start


def _read_into(file: BinaryIO, view: memoryview) -> int:
    """Bytes read to the front of `view`; 0: the file has ended."""
    read = getattr(file, "readinto", None)
    if read is None:  # a reader that only knows read()
        piece = file.read(len(view))
        view[: len(piece)] = piece
        return len(piece)
    got = read(view)
    if got is None:
        raise BlockingIOError("the file is not ready: open it blocking")
    return int(got)


def _load(code: _Code) -> Any:
    """The library's cutter, compiled or not, loaded when first needed.

    What it says of falling back is said by `require_native`.
    """
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        return code.load()


def _is_compiled(function: Any) -> bool:
    """Whether the code stands in an extension module, by the file that it was loaded from."""
    file = sys.modules[function.__module__].__file__ or ""
    return file.endswith(tuple(EXTENSION_SUFFIXES))
