"""Jobs in real guests, emulated: few boots (3 to 5 s each), each of which is asked many things.

All in one process of the test run: two guests at once on two processors take more than twice as long.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from hub.wire.claim import ImageRef
from runner import leftovers
from runner.agent import Agent
from runner.client import Hub
from runner.config import Config
from runner.sandbox import microvm_initrd
from runner.sandbox.base import Command, SandboxBroken, Stop
from runner.sandbox.keeper import processes
from runner.sandbox.microvm import Means, MicrovmSandbox
from runner.sandbox.microvm_check import FOLDER, Found
from runner.sandbox.namespace import Asked
from runner.tiers import Tiers
from tests.runner import boxes, guests
from tests.runner.conftest import QUICK, ROOT
from tests.runner.fakehub import TOKEN, FakeHub, eventually
from tests.runner.test_workspace import entry, packed

pytestmark = [pytest.mark.xdist_group("microvm"), pytest.mark.timeout(180)]
FAR = 120.0


@pytest.fixture(scope="module")
def means() -> Means:
    return guests.means()


class Box:
    """A sandbox, and what its last step wrote."""

    def __init__(self, folder: Path, means: Means, asked: Asked, images: dict[str, Path]) -> None:
        self.made = MicrovmSandbox(folder, means, asked, grace_s=1.0, leaves=True)
        self.made.prepare()
        self.images = images
        self.out = ""

    def lay(self) -> None:
        self.made.lay(self.images)

    def run(
        self,
        script: str,
        *,
        image: str | None = None,
        stop: Stop | None = None,
        seconds: float = FAR,
        env: dict[str, str] | None = None,
    ) -> int:
        heard = bytearray()
        command = Command(script=script, env=self.made.env() | (env or {}), image=image)
        code = self.made.run(command, heard.extend, stop or Stop(), time.monotonic() + seconds)
        self.out = heard.decode(errors="replace")
        return code


@pytest.fixture
def box(
    means: Means, tmp_path: Path, image: Path, other_image: Path, request: pytest.FixtureRequest
) -> Iterator[Box]:
    asked: Asked = request.param
    made = Box(tmp_path / "job", means, asked, {image.stem: image, other_image.stem: other_image})
    yield made
    made.made.destroy()
    assert not (tmp_path / "job").exists()
    assert qemus(made.made._outside.mark) == []


def qemus(mark: str) -> list[int]:
    """The processes of a sandbox that are alive."""
    found = []
    for pid, (_, state) in processes().items():
        try:
            if state not in "ZX" and mark.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("box", [Asked(memory_mib=96, disk_mib=48, cpus=1)], indirect=True)
def test_a_job_has_its_image_its_files_and_its_limits_and_leaves_its_workspace(
    box: Box, other_image: Path
) -> None:
    files = box.made.workspace
    (files / "deep/er").mkdir(parents=True)
    (files / "deep/er/a name with\nall 'sorts'").write_text("kept")
    (files / "run.sh").write_text("echo ran\n")
    (files / "run.sh").chmod(0o755)
    (files / "away").symlink_to("/etc/name")
    os.link(files / "run.sh", files / "same")
    os.mkfifo(files / "pipe")  # which no archive takes
    box.lay()

    script = "cat /etc/name away deep/er/*; ./run.sh; pwd; id -u; hostname; ls -A | tr '\\n' ' '; echo $ODD"
    assert box.run(script, env={"ODD": "'a' \"b\"\n$c"}) == 0
    assert box.out == "first\nfirst\nkeptran\n/work\n0\njob\naway deep run.sh same 'a' \"b\" $c\n"
    assert box.run("test run.sh -ef same && ls /sys/class/net && uname -r") == 0
    assert box.out.splitlines()[0] == "lo"  # no network that it did not ask for
    assert box.out.splitlines()[1].endswith("-cloud-amd64")

    assert box.run("yes 0123456789abcde | head -c 2000000; exit 7") == 7
    assert box.out == "0123456789abcde\n" * 125_000
    assert box.run("echo out; echo err >/dev/stderr; kill -9 $$") == 137
    assert (box.out, box.made.short_of(137)) == ("out\nerr\n", None)
    assert box.run("no-such-program") == 127
    assert box.run("kill -TERM 0") == 143  # its own group, and not the guest's first processes
    assert box.run("(while :; do echo x >>beat; sleep 0.1; done) & echo here") == 0
    assert box.run("a=$(wc -l <beat); sleep 1; expr $(wc -l <beat) - $a") == 0
    assert int(box.out) > 0  # what a step left running goes on

    assert box.run("dd if=/dev/zero of=big bs=1M count=100 2>/dev/null || { sleep 1.2; rm big; false; }") == 1
    assert box.made.short_of(1) == "disk"
    assert 40 <= (box.made.usage().peak_disk_mib or 0) <= 64

    script = "cat /etc/name; echo two >made; rm /etc/name; ln -s /work/run.sh abs"
    assert box.run(script, image=other_image.stem) == 0
    assert box.out == "second\n"
    assert box.made.short_of(0) is None
    box.made.end()
    assert (files / "made").read_text() == "two\n"
    assert (files / "deep/er/a name with\nall 'sorts'").read_text() == "kept"
    assert (files / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (files / "away").readlink() == Path("/etc/name")
    assert (files / "abs").readlink() == Path("/work/run.sh")
    assert (files / "beat").exists()


@pytest.mark.parametrize("box", [Asked(memory_mib=64, disk_mib=32, cpus=1)], indirect=True)
def test_a_job_that_takes_too_much_or_too_long_is_ended_and_told_so(box: Box) -> None:
    box.lay()
    assert box.run("awk 'BEGIN { s = \"0123456789abcdef\"; while (1) s = s s }'") == 137
    assert box.made.short_of(137) == "memory"
    assert (box.made.usage().peak_memory_mib or 0) >= 60
    assert box.run("echo alive") == 0  # it was the job that was killed, and not its guest
    assert box.made.short_of(1) is None

    began = time.monotonic()
    stop = Stop()
    assert box.run("trap 'echo asked; exit 5' TERM; while :; do sleep 0.1; done", stop=stop, seconds=2) == 5
    assert stop.reason == "timed_out"
    assert box.out.endswith("asked\n")
    stop = Stop()
    threading.Timer(1.0, stop.ask, ("canceled",)).start()
    assert box.run("trap : TERM; sleep 60 & while :; do sleep 0.1 || :; done", stop=stop) == 137
    assert time.monotonic() - began < 30
    assert box.run("ps | grep -c '[s]leep 60' || :") == 0
    assert box.out == "0\n"  # what it had in the background was ended too

    guest = box.made._guest
    assert guest is not None
    assert guest._keeper is not None
    assert qemus(box.made._outside.mark)
    guest._keeper.kill()  # as the machine's kernel might, where memory runs out
    with pytest.raises(SandboxBroken, match="keeper"):
        box.run("true")
    eventually(lambda: "qemu" not in " ".join(names(box.made._outside.mark)), "QEMU dies with its keeper")


def names(mark: str) -> list[str]:
    return [Path(f"/proc/{pid}/comm").read_text() for pid in qemus(mark) if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("box", [Asked(memory_mib=64, disk_mib=32, cpus=1, network=True)], indirect=True)
def test_a_network_reaches_other_machines_and_never_this_ones_own_address(box: Box) -> None:
    boxes.need("slirp4netns", "slirp4netns")
    with socket.create_server(("127.0.0.1", 0)) as inner, socket.create_server(("0.0.0.0", 0)) as outer:
        address = boxes.own_address()
        box.lay()
        inside, outside = inner.getsockname()[1], outer.getsockname()[1]
        hosts = "127.0.0.1 10.0.3.2 10.0.2.2 10.0.2.100"
        script = f"for h in {hosts}; do nc -w 1 $h {inside} </dev/null && echo $h; done; cat /etc/resolv.conf"
        assert box.run(script) == 0
        inner.settimeout(0.5)
        with pytest.raises(TimeoutError):
            inner.accept()
        assert "nameserver 10.0.3.3" in box.out
        if address is not None:
            threading.Thread(target=greet, args=(outer,), daemon=True).start()
            assert box.run(f"nc -w 5 {address} {outside} </dev/null") == 0
            assert box.out == "hello\n"
    stop = Stop()
    threading.Timer(0.5, stop.ask, ("released",)).start()
    began = time.monotonic()
    box.run("trap '' TERM; sleep 60", stop=stop)
    assert time.monotonic() - began < 10  # at once: no grace
    assert qemus(box.made._outside.mark) == [] or box.made._guest is None


def greet(listener: socket.socket) -> None:
    listener.settimeout(30)
    one, _ = listener.accept()
    with one:
        one.sendall(b"hello\n")


class Shelf:
    """One image, which is here."""

    def __init__(self, image: Path) -> None:
        self.image = image
        self.changed: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def use(self, image: str) -> Iterator[None]:
        yield

    def ensure(self, ref: ImageRef, *, stop: Stop, until: float, note: Callable[[str], None]) -> Path:
        return self.image

    def held(self) -> dict[str, str | None]:
        return {self.image.stem: None}

    def fetching(self) -> tuple[str, ...]:
        return ()

    def taken_mib(self) -> int:
        return 0


def test_a_whole_job_takes_its_files_into_a_guest_and_its_artifacts_out_of_it(
    means: Means, hub: FakeHub, tmp_path: Path, image: Path
) -> None:
    pack = packed(entry("src/main", b"content"))
    hub.workspaces[1] = pack
    hub.queue(
        1,
        "cat src/main; echo made >src/made; mkdir out",
        "ln -s /work/src/made out/near; ln -s /etc/passwd out/far",
        "awk 'BEGIN { s = \"0123456789abcdef\"; while (1) s = s s }'",
        tier="microvm",
        images=[{"hash": image.stem}],
        workspace={"hash": blake3(pack).hexdigest(), "bytes": len(pack)},
        artifacts=["out/**"],
        memory_mib=64,
        disk_mib=32,
    )
    os.close(leftovers.take(tmp_path))
    offers = Tiers(offered=("microvm",), guests=Found(means=means))
    settings = Config(
        url=hub.url, token=TOKEN, work=tmp_path, tiers=("microvm",), accel="tcg", timing=QUICK, speed=100,
        wait_s=5, once=True,
    )  # fmt: skip
    assert Agent(settings, Hub(hub.url, TOKEN), tiers=offers, images=Shelf(image)).run() == 0
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"], said["short"]) == ("failed", 137, "memory")
    assert said["error"].startswith("ran out of memory: 64 MiB asked, 64 MiB taken")
    assert said["gone"] is True
    assert b"content" in hub.log(1)
    assert hub.artifacts == {"out/near": b"made\n"}
    assert b"leads out of the workspace" in hub.log(1)
    assert hub.of("/claim")[0].json["facts"]["accel"] == "tcg"
    assert list((tmp_path / "jobs").iterdir()) == []


AGENT = """
import sys, time
from pathlib import Path
from runner.sandbox.base import Command, Stop
from runner.sandbox.microvm import MicrovmSandbox
from runner.sandbox.namespace import Asked
from tests.runner import guests
work, image = Path(sys.argv[1]), Path(sys.argv[2])
asked = Asked(memory_mib=64, disk_mib=32)
box = MicrovmSandbox(work / "jobs/1", guests.means(), asked, grace_s=1, leaves=True)
box.prepare()
box.lay({"image": image})
say = lambda piece: (sys.stdout.buffer.write(piece), sys.stdout.flush())
box.run(Command(script="echo begun; sleep 100", env=box.env()), say, Stop(), time.monotonic() + 100)
"""


def test_after_a_runner_was_killed_no_guest_is_left_and_the_next_removes_its_files(
    means: Means, tmp_path: Path, image: Path
) -> None:
    os.close(leftovers.take(tmp_path))
    words = [sys.executable, "-c", AGENT, str(tmp_path), str(image)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"begun\n"
        mark = (tmp_path / "jobs/1" / leftovers.MARK_FILE).read_text()
        assert any(name.startswith("qemu") for name in names(mark))
        agent.send_signal(signal.SIGKILL)
    eventually(lambda: qemus(mark) == [], "the guest is gone", 15)
    assert leftovers.clean(tmp_path) == 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_check_boots_once_as_any_user_and_knows_it_the_next_time(
    means: Means, plain: tuple[Path, list[str]], public_folder: Path
) -> None:
    tree, python = plain
    (kernel,) = guests.kernel_folder().glob("kernel-*")
    target = public_folder / FOLDER / kernel.name
    (target / "modules").mkdir(parents=True)
    shutil.copy(kernel / "vmlinuz", target)
    found = microvm_initrd._found(kernel / "modules")
    for name in microvm_initrd._ordered(found, (*microvm_initrd.MODULES, *microvm_initrd.NETWORK)):
        shutil.copy(found[name], target / "modules")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{boxes.NOBODY}:{boxes.NOBODY}", str(public_folder)], check=True)
    words = [*python, "-m", "runner", "check", "--tiers", "microvm", "--work", str(public_folder)]
    said = []
    for _ in range(2):
        done = subprocess.run(
            words, cwd=tree, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tree)},
            capture_output=True, text=True, check=False, timeout=FAR,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(done.stdout)
    assert "tier microvm: yes" in said[0]
    assert "a guest was booted" in said[0]
    assert "known from an earlier start" in said[1]
