"""Chunks over a way that loses answers, cuts streams and changes bytes."""

import threading
from collections.abc import Iterator

import pytest

from hub.carry import link
from hub.carry.link import Aborted, Address, Denied, Lost
from hub.carry.transfer import BATCH_CHUNKS, Garbled, Moved, NotHeld, Patience, Transfer, batches
from hub.chunks.chunk import encode, max_encoded_bytes, name_of
from hub.chunks.frames import END, HEAD_BYTES, frame
from tests.carry.imagehub import Answer, Fault, ImageHub, serving, told

QUICK = Patience(first_s=0.001, most_s=0.004, give_up_s=0.05)


@pytest.fixture
def hub() -> Iterator[ImageHub]:
    with serving() as made:
        yield made


@pytest.fixture
def transfer(hub: ImageHub) -> Iterator[Transfer]:
    with Transfer(hub.address, patience=QUICK) as made:
        yield made


RAW = {name_of(raw): raw for raw in (b"%d" % number * 999 for number in range(300))}
WANTED = [(name, len(raw)) for name, raw in RAW.items()]


def _hold(hub: ImageHub) -> None:
    hub.chunks = {name: encode(raw) for name, raw in RAW.items()}


def test_every_chunk_that_is_sent_arrives_once_and_is_counted(hub: ImageHub, transfer: Transfer) -> None:
    told: list[Moved] = []
    transfer.send(WANTED, RAW.__getitem__, told.append)
    assert hub.chunks == {name: encode(raw) for name, raw in RAW.items()}
    assert len(hub.received) == len(RAW)
    assert sum(each.chunks for each in told) == len(RAW)
    assert sum(each.raw_bytes for each in told) == sum(map(len, RAW.values()))
    assert hub.count("POST", "/images/chunks") == -(-len(RAW) // BATCH_CHUNKS)


def test_every_chunk_that_is_fetched_is_put_once(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)
    found: list[tuple[str, bytes]] = []
    transfer.fetch(WANTED, lambda name, raw: found.append((name, raw)))
    assert sorted(found) == sorted(RAW.items())


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/chunks", lose=True),
        Fault("/chunks", status=503),
        Fault("/chunks", status=429),
        Fault("/chunks", cut=0),
        Fault("/chunks", cut=10),
    ],
)
def test_a_batch_whose_answer_was_lost_is_sent_again(hub: ImageHub, transfer: Transfer, fault: Fault) -> None:
    hub.faults = [fault, fault]
    transfer.send(WANTED, RAW.__getitem__)
    assert set(hub.chunks) == set(RAW)
    assert hub.faults == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/fetch", lose=True),
        Fault("/fetch", status=500),
        Fault("/fetch", cut=3000),
        Fault("/fetch", wrong=2),  # a length
        Fault("/fetch", wrong=10),  # a name
        Fault("/fetch", wrong=41),  # a frame's header
        Fault("/fetch", wrong=60),  # what a frame holds
        Fault("/fetch", wrong=-1),  # the end
    ],
)
def test_what_did_not_come_right_is_fetched_again(hub: ImageHub, transfer: Transfer, fault: Fault) -> None:
    _hold(hub)
    hub.faults = [fault, fault]
    found: list[tuple[str, bytes]] = []
    transfer.fetch(WANTED, lambda name, raw: found.append((name, raw)))
    assert sorted(found) == sorted(RAW.items())
    assert hub.faults == []


def test_a_stream_that_is_cut_again_and_again_goes_on_from_where_it_came_to(
    hub: ImageHub, transfer: Transfer
) -> None:
    _hold(hub)
    hub.faults = [Fault("/fetch", cut=400) for _ in range(200)]  # far more than patience without success
    found: list[str] = []
    transfer.fetch(WANTED, lambda name, raw: found.append(name))
    assert sorted(found) == sorted(RAW)


def test_wrong_bytes_that_do_not_end_are_told_as_such(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)
    hub.faults = [Fault("/fetch", wrong=60) for _ in range(50)]
    found: list[str] = []
    with pytest.raises(Garbled, match="not what was asked for"):
        transfer.fetch(WANTED, lambda name, raw: found.append(name))
    assert len(found) < len(RAW)


def test_a_chunk_that_the_hub_has_lost_is_told_at_once(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)
    lost = next(iter(RAW))
    del hub.chunks[lost]
    with pytest.raises(NotHeld, match="lost 1 chunks of it: push the image again"):
        transfer.fetch(WANTED[:10], lambda name, raw: None)
    assert hub.count("POST", "/images/chunks/fetch") == 1


def test_a_chunk_that_was_not_asked_for_is_no_answer(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)
    other = next(iter(hub.chunks))
    hub.instead["/images/chunks/fetch"] = Answer(200, frame(other, hub.chunks[other]) + END)
    with pytest.raises(Garbled, match="which was not asked for"):
        transfer.fetch(WANTED[1:3], lambda name, raw: None)


def test_a_hub_that_is_away_is_given_up_after_the_patience(hub: ImageHub) -> None:
    gone = Address(url="http://127.0.0.1:1", token=None, agent="tests")
    with Transfer(gone, patience=QUICK) as transfer, pytest.raises(Lost, match="connection refused"):
        transfer.send(WANTED, RAW.__getitem__)


def test_a_body_that_the_way_has_changed_is_sent_again_and_not_for_ever(
    hub: ImageHub, transfer: Transfer
) -> None:
    hub.faults = [Fault("/chunks", status=422), Fault("/chunks", status=400)]
    transfer.send(WANTED, RAW.__getitem__)
    assert set(hub.chunks) == set(RAW)
    hub.faults = [Fault("/chunks", status=422) for _ in range(20)]
    with Transfer(hub.address, patience=QUICK) as again, pytest.raises(Denied, match="not now"):
        again.send(WANTED[:3], RAW.__getitem__)
    assert len(hub.faults) == 15


@pytest.mark.parametrize(("status", "words"), [(403, "not now"), (507, "not now"), (302, "not now")])
def test_a_refusal_is_not_asked_again(hub: ImageHub, transfer: Transfer, status: int, words: str) -> None:
    hub.faults = [Fault("/chunks", status=status)]
    with pytest.raises(Denied, match=words) as refused:
        transfer.send(WANTED[:5], RAW.__getitem__)
    assert refused.value.status == status
    assert hub.count("POST", "/images/chunks") == 0


def test_a_failure_to_keep_what_came_ends_the_whole_at_once(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)

    def put(name: str, raw: bytes) -> None:
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space left"):
        transfer.fetch(WANTED, put)
    assert transfer.aborted


def test_a_transfer_that_is_given_up_ends_in_the_midst_of_a_call(hub: ImageHub) -> None:
    _hold(hub)
    began, go_on = threading.Event(), threading.Event()

    def hold_back(path: str) -> None:
        began.set()
        go_on.wait(30)

    hub.before = hold_back
    with Transfer(hub.address) as transfer:
        ended: list[BaseException] = []

        def run() -> None:
            try:
                transfer.fetch(WANTED, lambda name, raw: None)
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert began.wait(10)
        transfer.abort()
        thread.join(10)
        go_on.set()
    assert not thread.is_alive()
    assert isinstance(ended[0], Aborted)


def test_the_token_goes_only_to_the_hub_and_a_wrong_one_is_told(hub: ImageHub) -> None:
    wrong = Address(url=hub.url, token="another", agent="tests")
    with Transfer(wrong, patience=QUICK) as transfer, pytest.raises(Denied, match="not valid"):
        transfer.missing(RAW)
    assert "another" not in repr(wrong)


def test_what_is_missing_is_asked_in_batches_and_told_in_order(hub: ImageHub, transfer: Transfer) -> None:
    _hold(hub)
    names = list(RAW)
    for name in names[::7]:
        del hub.chunks[name]
    assert transfer.missing(names, batch=64) == names[::7]
    assert hub.count("POST", "/images/missing") == 5


def test_an_answer_that_is_no_hubs_is_refused(hub: ImageHub, transfer: Transfer) -> None:
    hub.instead["/images/missing"] = told({"chunks": []})
    with pytest.raises(Denied, match="is the address right"):
        transfer.missing(RAW)


def test_an_answer_beyond_its_bound_is_refused(hub: ImageHub, transfer: Transfer) -> None:
    with pytest.raises(Denied, match="beyond its bound"):
        transfer.ask("GET", "/images/settings", max_bytes=20)


def test_a_body_never_passes_the_bound_of_the_hub() -> None:
    sizes = [262144, 1, 70000, 16384] * 100
    found = list(batches([(str(number), size) for number, size in enumerate(sizes)], 2**20))
    assert [one for batch in found for one in batch] == [(str(n), size) for n, size in enumerate(sizes)]
    for batch in found:
        assert sum(HEAD_BYTES + max_encoded_bytes(size) for _, size in batch) + len(END) <= 2**20
        assert len(batch) <= BATCH_CHUNKS
    assert len(list(batches([("a", 2**19), ("b", 2**19)], 10))) == 2


def test_the_library_names_what_went_wrong() -> None:
    assert link._cause(TimeoutError()) == "no answer in time"
    assert link._cause(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert link._cause(ValueError("x")) == "the connection broke (ValueError)"
