"""Images: pushed, updated and fetched, beside casync and borg and what the machine can do at all.

    python -m tests.bench.images [V1 V2]

Without files the bench builds two Debian images by itself, as `shunter image import` does: the base, and
the base with a toolchain. That takes some minutes and a network; where mmdebstrap or mksquashfs is
missing it makes a stand-in of what stands under /usr here, and says so. Each figure is the best of three
rounds in a fresh hub and fresh stores, since what disturbs only adds. The hub is a process of its own on
SQLite;
`shunter` is called as a person calls it, with the start of Python in its time.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import image_serving, servers
from tests.bench.image_rivals import Borg, Casync, Machine, demand_same
from tests.bench.spent import Memory, Spent, spend

ROUNDS = 3
SUITE = "debian:bookworm"
TOOLCHAIN = "gcc,libc6-dev,make,git"
STAND_IN = {"v1": ("bin", "sbin"), "v2": ("bin", "sbin", "share")}  # below /usr
STAND_IN_BYTES = 400_000_000
STEPS = ("push v1", "update to v2", "fetch v2", "fetch v2, v1 held")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a step cost. `moved`: bytes that travelled or were stored; `hub_mib`: None where it has none."""

    seconds: float
    moved: int
    peak_mib: float
    hub_mib: float | None = None


Table = dict[str, dict[str, Figure]]  # by program and step


# -- images -------------------------------------------------------------------------------------


def shunter(*words: str | Path) -> list[str]:
    """The command line, as this Python runs it."""
    return [sys.executable, "-m", "hub.cli.main", *map(str, words)]


def build(folder: Path) -> tuple[Path, Path]:
    """Two images, the second with more in it."""
    made = (folder / "v1.sqfs", folder / "v2.sqfs")
    if shutil.which("mmdebstrap") and shutil.which("mksquashfs"):
        for target, more in zip(made, ([], [f"--include={TOOLCHAIN}"]), strict=True):
            print(f"building {target.stem}: {SUITE} {' '.join(more)}", file=sys.stderr)
            spend(shunter("image", "import", SUITE, "--output", target, *more), cwd=folder)
        return made
    print("no mmdebstrap or no mksquashfs: files of this machine stand in for Debian images")
    for target in made:
        gather(target, STAND_IN[target.stem])
    return made


def gather(target: Path, folders: tuple[str, ...]) -> None:
    """Files of this machine, one behind the other, in the order of their paths."""
    left = STAND_IN_BYTES
    with target.open("wb") as out:
        for source in (path for one in folders for path in sorted(Path("/usr", one).rglob("*"))):
            if source.is_symlink() or not source.is_file():
                continue
            try:
                left -= out.write(source.read_bytes()[:left])
            except OSError:  # gone meanwhile, or not for us to read
                continue


# -- the hub ------------------------------------------------------------------------------------


class Hub:
    """`shunter image push` and `pull`, to a hub that runs."""

    name = "shunter"

    def __init__(self, served: servers.Served, folder: Path) -> None:
        self.served = served
        self._folder = folder
        self._memory = Memory(served.pid)

    def push(self, image: Path) -> Figure:
        """Cut, ask, send, have the whole checked, name it."""
        spent, said = self._call("push", image, "--name", image.stem)
        return self._figure(spent, said["sent"])

    def fetch(self, image: Path, seed: Path | None) -> Figure:
        """Ask, take what the seed has, fetch the rest, check the whole, make it durable."""
        out = self._folder / "out"
        words = ["--seed", str(seed)] if seed else []
        spent, said = self._call("pull", image.stem, "--output", out, *words)
        demand_same(out, image)
        out.unlink()
        return self._figure(spent, said["fetched"])

    def hash_of(self, image: Path) -> str:
        """What the hub calls it."""
        names = json.loads(self._run("image", "names").said)["names"]
        return str(next(one["hash"] for one in names if one["name"] == image.stem))

    def _call(self, *words: str | Path) -> tuple[Spent, Mapping[str, Mapping[str, int]]]:
        self._memory.forget()
        spent = self._run("image", *words)
        return spent, json.loads(spent.said)

    def _run(self, *words: str | Path) -> Spent:
        environ = {"SHUNTER_URL": f"http://127.0.0.1:{self.served.port}", "SHUNTER_TOKEN": self.served.token}
        environ["PYTHONPATH"] = str(Path.cwd())
        return spend(shunter(*words, "--json"), cwd=self._folder, environ=environ)

    def _figure(self, spent: Spent, moved: Mapping[str, int]) -> Figure:
        return Figure(
            seconds=spent.seconds,
            moved=moved["wire_bytes"],
            peak_mib=spent.peak_mib,
            hub_mib=self._memory.peak_mib(),
        )


# -- rounds -------------------------------------------------------------------------------------


def steps_of_hub(hub: Hub, v1: Path, v2: Path) -> Iterator[tuple[str, Figure]]:
    """All steps, in order."""
    yield STEPS[0], hub.push(v1)
    yield STEPS[1], hub.push(v2)
    yield STEPS[2], hub.fetch(v2, None)
    yield STEPS[3], hub.fetch(v2, v1)


def steps_of_rival(rival: Casync | Borg, v1: Path, v2: Path) -> Iterator[tuple[str, Figure]]:
    """All steps that it can do, in order."""
    done = (rival.push(v1), rival.push(v2), rival.fetch(v2, None), rival.fetch(v2, v1))
    for step, found in zip(STEPS, done, strict=True):
        if found is not None:
            spent, moved = found
            yield step, Figure(seconds=spent.seconds, moved=moved, peak_mib=spent.peak_mib)


def one_round(folder: Path, v1: Path, v2: Path) -> tuple[Table, dict[str, float]]:
    """Everything once, in fresh stores; and the MB/s of serving."""
    found: Table = {}
    serving: dict[str, float] = {}
    place = made(folder / "hub")
    with servers.hub(place) as served:
        hub = Hub(served, made(folder / "client"))
        found[hub.name] = dict(steps_of_hub(hub, v1, v2))
        if image_serving.missing() is None:
            scripts = made(folder / "serving")
            serving["hub, framed fetch"] = image_serving.from_hub(served, hub.hash_of(v2), scripts)
            serving["nginx, pack files"] = image_serving.from_nginx(place / "blobs", scripts)
    for kind in (Casync, Borg):
        if kind.missing() is None:
            rival = kind(made(folder / kind.name))
            found[rival.name] = dict(steps_of_rival(rival, v1, v2))
    return found, serving


def made(folder: Path) -> Path:
    """The folder, which is there now."""
    folder.mkdir()
    return folder


def best(tables: list[Table]) -> Table:
    """Of each figure the least time; memory at its most."""
    found: Table = {}
    for program, steps in tables[0].items():
        for step in steps:
            rounds = [table[program][step] for table in tables]
            peaks = [one.hub_mib for one in rounds if one.hub_mib is not None]
            found.setdefault(program, {})[step] = Figure(
                seconds=min(one.seconds for one in rounds),
                moved=rounds[0].moved,
                peak_mib=max(one.peak_mib for one in rounds),
                hub_mib=max(peaks, default=None),
            )
    return found


# -- the table ----------------------------------------------------------------------------------


def limits(machine: Machine, image: Path) -> dict[str, float]:
    """Seconds that the machine needs at least: the best of the rounds."""
    return {
        "read": min(machine.reading(image) for _ in range(ROUNDS)),
        "hash": min(machine.hashing(image) for _ in range(ROUNDS)),
        "write, durably": min(machine.writing(image) for _ in range(ROUNDS)),
    }


def tell(table: Table, bare: dict[str, float], serving: dict[str, float], v1: Path, v2: Path) -> None:
    """Print it all."""
    sizes = {STEPS[0]: v1.stat().st_size}
    print(
        f"v1 {v1.stat().st_size / 1e6:.0f} MB, v2 {v2.stat().st_size / 1e6:.0f} MB; best of {ROUNDS} rounds"
    )
    for what, seconds in bare.items():
        print(f"  {what + ' v2':<20} {seconds:6.2f} s  {v2.stat().st_size / seconds / 1e6:6.0f} MB/s")
    for step in STEPS:
        ours = table["shunter"][step]
        print(step)
        for program, steps in table.items():
            if (one := steps.get(step)) is None:
                continue
            rate = sizes.get(step, v2.stat().st_size) / one.seconds / 1e6
            memory = f"{one.peak_mib:5.0f} MiB" + (f" + hub {one.hub_mib:.0f} MiB" if one.hub_mib else "")
            print(
                f"  {program:<8} {one.seconds:6.2f} s ({one.seconds / ours.seconds:5.2f} of shunter)"
                f"  {rate:5.0f} MB/s  {one.moved / 1e6:6.1f} MB moved  {memory}"
            )
    held = v2.stat().st_size / table["shunter"][STEPS[3]].seconds
    print(f"a held update in writes of the disk: {held * bare['write, durably'] / v2.stat().st_size:.0%}")
    for what, rate in serving.items():
        print(f"serving, {image_serving.CLIENTS} clients: {what:<20} {rate:6.0f} MB/s")
    for missing in filter(None, (Casync.missing(), Borg.missing(), image_serving.missing())):
        print(f"not measured: {missing}")


def main() -> int:
    """Run all, print a table, and the same as JSON on the last line."""
    with tempfile.TemporaryDirectory(prefix="shunter-bench-") as name:
        folder = Path(name)
        given = [Path(word).absolute() for word in sys.argv[1:]]
        v1, v2 = (given[0], given[1]) if len(given) == 2 else build(folder)
        tables, served = [], []
        for number in range(ROUNDS):
            place = made(folder / f"round-{number}")
            table, serving = one_round(place, v1, v2)
            tables.append(table)
            served.append(serving)
            shutil.rmtree(place)
        found = best(tables)
        fastest = {what: max(one[what] for one in served) for what in served[0]}
        bare = limits(Machine(folder), v2)
        tell(found, bare, fastest, v1, v2)
    figures = {
        program: {step: [round(one.seconds, 3), one.moved] for step, one in steps.items()}
        for program, steps in found.items()
    }
    print(json.dumps({**figures, "limits": bare, "serving": fastest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
