"""What a job of the namespace tier tries against the machine it runs on, as root and as a plain user."""

import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.sandbox.place import program
from runner.sandbox.seccomp import ARCHITECTURES
from tests.runner.boxes import Driver, own_address

Begin = Callable[..., Driver]


@pytest.fixture
def driver(box_driver: Begin, image: Path) -> Driver:
    """With one sandbox, `job`."""
    made = box_driver()
    made.make("job", image)
    return made


@pytest.fixture
def hub_port() -> Iterator[int]:
    """Something that listens on the machine's 127.0.0.1, and says so to whoever reaches it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    link.sendall(b"REACHED\n")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_the_runners_files_are_not_there(driver: Driver) -> None:
    token = driver.work / "token"
    token.write_text(driver.secret)
    token.chmod(0o644)
    ran = driver.run(
        "job", f"set +e; cat {token} 2>&1; ls {driver.work} 2>&1; ls -d /home /var/tmp /mnt 2>&1; :"
    )
    assert driver.secret not in ran.out
    assert ran.out.count("No such file") == 5
    look = driver.run("job", f"grep -rs '[{driver.secret[0]}]{driver.secret[1:]}' / --exclude-dir=proc || :")
    assert driver.secret not in look.out


def test_no_environment_but_its_own_can_be_read(driver: Driver) -> None:
    assert driver.secret.encode() in Path(f"/proc/{driver.popen.pid}/environ").read_bytes()
    ran = driver.run("job", "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
    assert driver.secret not in ran.out
    assert "PATH=" in ran.out


def test_the_machines_processes_are_neither_seen_nor_reached(driver: Driver) -> None:
    ran = driver.run("job", f"ls /proc | grep -c '^[0-9]'; kill -9 {driver.popen.pid}; kill -9 -1; :")
    assert int(ran.out.splitlines()[0]) <= 5
    assert driver.popen.poll() is None
    assert driver.run("job", "echo alive").out == "alive\n"


def test_files_of_the_kernel_are_not_written(driver: Driver) -> None:
    """core_pattern above all: who writes it has a program of his run as the machine's root."""
    names = ("kernel/core_pattern", "kernel/hostname", "kernel/modprobe", "vm/drop_caches")
    script = "".join(f"(: >>/proc/sys/{name}) && echo OPENED {name}\n" for name in names)
    script += "(echo c >/proc/sysrq-trigger) && echo OPENED sysrq\n:"
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    ran = driver.run("job", "set +e\n" + script)
    assert ran.code == 0
    assert "OPENED" not in ran.out
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


def test_nothing_is_mounted_and_no_namespace_made(driver: Driver) -> None:
    script = """set +e
mount -t tmpfs none /var && echo MOUNTED tmpfs
mount --bind / /var && echo MOUNTED bind
mount -o remount,rw /dev && echo MOUNTED dev
umount /proc && echo MOUNTED not proc
unshare -U true && echo MADE user
unshare -m true && echo MADE mount
touch /dev/new && echo WRITTEN dev
chroot / true && echo chroot is allowed
:"""
    ran = driver.run("job", script)
    for word in ("MOUNTED", "MADE", "WRITTEN"):
        assert word not in ran.out
    assert "chroot is allowed" in ran.out


def test_there_are_no_devices_of_the_machine(driver: Driver) -> None:
    ran = driver.run("job", "ls /dev; mknod /var/disk b 254 0 && head -c 1 /var/disk; ls /sys 2>&1")
    names = set(ran.out.split("\n")[:20])
    assert {"null", "zero", "full", "random", "urandom", "tty", "pts", "shm"} <= names
    assert not any(name.startswith(("sd", "vd", "loop", "kvm", "fuse", "mem")) for name in names)
    assert ran.code != 0


def test_a_job_gains_nothing_by_what_it_runs(driver: Driver) -> None:
    ran = driver.run("job", "cat /proc/self/status")
    status = dict(line.split(":\t", 1) for line in ran.out.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    admin, ptrace, net_admin, net_raw, mknod = (1 << number for number in (21, 19, 12, 13, 27))
    for kind in ("CapEff", "CapPrm", "CapInh"):
        assert int(status[kind], 16) & (admin | ptrace | net_admin | net_raw | mknod) == 0


def test_a_job_has_no_network_but_its_own_loopback(driver: Driver, hub_port: int) -> None:
    ran = driver.run("job", f"ip -o link | wc -l; nc -w 2 127.0.0.1 {hub_port} </dev/null && echo REACHED; :")
    assert ran.out.splitlines()[0] == "1"
    assert "REACHED" not in ran.out


def test_a_job_that_asks_for_a_network_reaches_out_and_not_the_machines_loopback(
    driver: Driver, image: Path, hub_port: int
) -> None:
    if program("slirp4netns") is None or not Path("/dev/net/tun").exists():
        pytest.skip("needs slirp4netns (Debian: slirp4netns) and /dev/net/tun")
    driver.make("net", image, asked={"network": True})
    script = f"""set +e
ip -o link | grep -c tap0; cat /etc/resolv.conf
for host in 127.0.0.1 10.0.2.2; do nc -w 2 $host {hub_port} </dev/null; done
:"""
    ran = driver.run("net", script)
    assert ran.out.splitlines()[:2] == ["1", "nameserver 10.0.2.3"]
    assert "REACHED" not in ran.out
    if (address := own_address()) is not None:
        with socket.create_server((address, 0)) as server:
            port = server.getsockname()[1]
            threading.Thread(target=answer_once, args=(server,), daemon=True).start()
            assert "OUTSIDE" in driver.run("net", f"nc -w 5 {address} {port} </dev/null || :").out
    driver.end("net")


def answer_once(server: socket.socket) -> None:
    link, _ = server.accept()
    with link:
        link.sendall(b"OUTSIDE\n")


CALLS = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for word in sys.argv[1:]:
    name, number, wanted = word.split(":")
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(int(number)), 0, 0, 0, 0, 0, 0)
    if got != -1 or ctypes.get_errno() != int(wanted):
        print("PASSED", name, got, ctypes.get_errno())
if libc.ptrace(16, int(os.environ["AGENT"]), 0, 0) != -1:
    print("ATTACHED")
print("CLONE3", libc.syscall(ctypes.c_long(435), 0, 0), ctypes.get_errno() == errno.ENOSYS)
print("USERNS", libc.syscall(ctypes.c_long(int(os.environ["CLONE"])), 0x10000000 | 17, 0, 0, 0, 0))
"""


def test_calls_that_lead_out_of_sandboxes_are_refused(box_driver: Begin, image: Path, who: str) -> None:
    """By a real program: the machine's own Python, bound into the sandbox read-only."""
    python = "/usr/bin/python3"
    known = ARCHITECTURES.get(platform.machine())
    if known is None or not os.access(python, os.X_OK):
        pytest.skip(f"needs {python} and a known architecture")
    driver = box_driver()
    driver.make("job", image, machine=True)
    calls = [f"{name}:{number}:1" for name, number in known.denied.items()]
    environ = {"AGENT": str(driver.popen.pid), "CLONE": str(known.clone), "PYTHONHOME": "/usr"}
    ran = driver.run("job", argv=[python, "-I", "-S", "-c", CALLS, *calls], env=environ)
    assert ran.code == 0, ran.out
    assert "PASSED" not in ran.out
    assert "ATTACHED" not in ran.out
    assert "CLONE3 -1 True" in ran.out
    assert "USERNS -1" in ran.out


def test_one_job_sees_nothing_of_another(driver: Driver, image: Path) -> None:
    driver.make("other", image)
    assert driver.run("other", "echo hidden >/work/file; echo hidden >/var/file; sleep 77 &").code == 0
    ran = driver.run("job", "ls /work /var; ps; cat /work/file /var/file")
    assert "hidden" not in ran.out
    assert "sleep" not in ran.out
    assert "file" not in ran.out.split("PID")[0]
    driver.end("other")
    driver.end("job")
