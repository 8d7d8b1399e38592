"""The live fleet as a lineup: made anew when it is asked for after a change, at most so often in a round.

Runners are values, so a lineup stays true to the moment it was made for, whatever changes meanwhile.
No rule of fit stands here: which entries are open to a demand is what the board remembers of `fit`.
"""

from dataclasses import replace

from hub.dispatch.board import LiveBoard
from hub.dispatch.fleet import Entry
from hub.dispatch.queue import Group
from hub.placement.fit import Shape, shape, shape_lacks
from hub.placement.headroom import Headroom
from hub.placement.lineup import Camp, Lineup, Open, camp
from hub.placement.model import Fleet, Runner
from hub.placement.rank import rank


class LiveLineup:
    """The newest lineup, and what it was made for. `version`: of the reasons, when it was made."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board
        self._line: Lineup | None = None
        self._of_entries: list[tuple[Entry, Camp]] = []
        self._never_polled: list[Camp] = []
        self.version = -1

    def at(self, now_ms: int, version: int, lag_ms: int = 0) -> Lineup:
        """The fleet as it is now; `lag_ms`: or as it was so long ago at most, for who asks very often."""
        line, value = self._line, self._board.fleet.value
        if line is not None and line.fleet.images is value.images:
            age_ms = now_ms - line.now_ms
            if (age_ms == 0 and version == self.version) or 0 < age_ms <= lag_ms:
                return line
        live = self._board.fleet.live
        frozen = replace(value, runners={name: one.model for name, one in live.items()})
        self._of_entries = [
            (entry, camp(entry.key[0], self._members(entry), frozen, now_ms))
            for entry in self._board.fleet.entries.values()
        ]
        self._never_polled = self._camps_of_unknown(frozen, now_ms)
        self._line = Lineup(frozen, [*(its for _, its in self._of_entries), *self._never_polled], now_ms)
        self.version = version
        return self._line

    def open_to(self, group: Group) -> Open:
        """The camps of the newest lineup that lack nothing for good for a group's demand."""
        assert self._line is not None, "a lineup was asked for"
        fleet, demand, live = self._line.fleet, group.demand, self._board.fleet.entries
        found: list[tuple[tuple[int, int, int], Camp]] = []
        for entry, its in self._of_entries:
            if entry in group.verdicts:
                found.append((group.verdicts[entry], its))
            elif live.get(entry.key) is not entry and not shape_lacks(demand, its.shape, fleet):
                found.append((rank(demand, its.sample), its))  # its last runner left it since then
        found += [
            (rank(demand, its.sample), its)
            for its in self._never_polled
            if not shape_lacks(demand, its.shape, fleet)
        ]
        return found

    def _members(self, entry: Entry) -> list[tuple[Runner, Headroom]]:
        fleet = self._board.fleet
        return [(fleet[name], fleet.room(name)) for name in entry.members]

    def _camps_of_unknown(self, frozen: Fleet, now_ms: int) -> list[Camp]:
        """Runners that never polled: nothing but their scope is known."""
        fleet = self._board.fleet
        camps: dict[Shape, list[tuple[Runner, Headroom]]] = {}
        for name, live in fleet.live.items():
            if live.entry is None:
                camps.setdefault(shape(live.model), []).append((live.model, fleet.room(name)))
        return [camp(of, members, frozen, now_ms) for of, members in camps.items()]
