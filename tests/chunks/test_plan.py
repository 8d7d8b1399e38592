"""What is planned, carried out, gives the wanted file; and nothing that is at hand is fetched."""

from hypothesis import given
from hypothesis import strategies as st

from hub.chunks.chunk import name_of
from hub.chunks.cutter import DEFAULT_CUTTER
from hub.chunks.manifest import Manifest, Piece, Plan, plan

# Chunks of one to seven bytes, told apart by their letter.
RAW = {letter: letter.encode() * size for size, letter in enumerate("abcdefg", 1)}
BY_NAME = {name_of(raw): raw for raw in RAW.values()}


def manifest(letters: str) -> Manifest:
    chunks = tuple((name_of(RAW[letter]), len(RAW[letter])) for letter in letters)
    return Manifest(bytes=sum(size for _, size in chunks), cutter=DEFAULT_CUTTER, chunks=chunks)


def file(letters: str) -> bytes:
    return b"".join(RAW[letter] for letter in letters)


def planned(wanted: str, **held: str) -> Plan:
    return plan(manifest(wanted), {name: manifest(letters) for name, letters in held.items()})


def sources(found: Plan) -> list[tuple[str | None, int | None]]:
    return [(piece.held, piece.held_offset) for piece in found.pieces]


letters = st.text("abcdefg", min_size=1, max_size=30)
held_files = st.dictionaries(st.sampled_from(["one", "two", "three"]), letters)


@given(wanted=letters, held=held_files)
def test_carried_out_it_gives_the_wanted_file(wanted: str, held: dict[str, str]) -> None:
    found = planned(wanted, **held)
    made = bytearray(len(file(wanted)))
    at = 0
    for piece in found.pieces:
        assert piece.offset == at
        at += piece.bytes
        if piece.held is not None and piece.held_offset is not None:
            source = file(held[piece.held])
            made[piece.offset : at] = source[piece.held_offset : piece.held_offset + piece.bytes]
    assert at == len(made)
    for name, size in found.fetch:
        for offset in found.places[name]:
            made[offset : offset + size] = BY_NAME[name]
    assert bytes(made) == file(wanted)


@given(wanted=letters, held=held_files)
def test_exactly_what_no_held_file_has_is_fetched_each_once_in_order(
    wanted: str, held: dict[str, str]
) -> None:
    at_hand = {letter for each in held.values() for letter in each}
    lacked = list(dict.fromkeys(letter for letter in wanted if letter not in at_hand))
    found = planned(wanted, **held)
    assert found.fetch == tuple((name_of(RAW[letter]), len(RAW[letter])) for letter in lacked)
    assert sum(piece.bytes for piece in found.pieces if piece.held is not None) == len(
        file("".join(letter for letter in wanted if letter in at_hand))
    )
    assert list(found.places) == [name for name, _ in found.fetch]


def test_with_nothing_held_all_is_fetched_and_a_repeat_only_once() -> None:
    found = planned("abba")
    assert [name for name, _ in found.fetch] == [name_of(b"a"), name_of(b"bb")]
    assert found.places == {name_of(b"a"): (0, 5), name_of(b"bb"): (1, 3)}
    assert all(piece.held is None for piece in found.pieces)


def test_with_all_held_nothing_is_fetched() -> None:
    found = planned("abc", old="abc")
    assert found.fetch == ()
    assert found.places == {}
    assert found.pieces[1] == Piece(name=name_of(b"bb"), bytes=2, offset=1, held="old", held_offset=1)


def test_an_equal_stretch_is_read_in_one_sweep_from_one_file() -> None:
    # "one" has a and c too, and stands first; b and c are taken from where they follow a.
    assert sources(planned("gabc", one="cga", two="abc")) == [
        ("one", 3),
        ("one", 10),
        ("two", 1),
        ("two", 3),
    ]
    assert sources(planned("bc", one="cab", two="abc")) == [("one", 4), ("one", 0)]
    assert sources(planned("abcabc", one="abdabc")) == [
        ("one", 0), ("one", 1), ("one", 10), ("one", 0), ("one", 1), ("one", 10),
    ]  # fmt: skip

    # What was inserted is fetched, and the sweep goes on behind it.
    assert sources(planned("aegb", one="bc", two="ab")) == [
        ("two", 0),
        (None, None),
        (None, None),
        ("two", 1),
    ]


def test_files_of_another_cutter_give_what_chunks_they_share() -> None:
    other = manifest("ab")
    other = Manifest(bytes=other.bytes, cutter="fastcdc2016-64k", chunks=other.chunks)
    assert plan(manifest("bc"), {"old": other}).fetch == ((name_of(b"ccc"), 3),)
