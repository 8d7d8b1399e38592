"""`python -m runner`: settings, signals and the exit status around the agent.

0: drained or done. 1: the hub refuses this runner, or its folder is in use. 2: the options are wrong.
SIGTERM or SIGINT once: finish what runs; twice: kill it and give it back.
"""

import dataclasses
import json
import logging
import os
import select
import signal
import sys
import threading

from hub.carry.link import Address
from runner import config, leftovers, secret, tiers
from runner.agent import EXIT_REFUSED, Agent
from runner.client import AGENT, Hub
from runner.images import Images, default_limit_mib
from runner.images_shelf import Shelf
from runner.offer import Offer
from runner.sandbox import microvm_check, microvm_kernel
from runner.sandbox.base import SandboxBroken

EXIT_WRONG_WORDS = 2
SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("runner")


def main() -> int:
    """Run until told to end; the exit status."""
    environ = dict(os.environ)
    try:
        words = secret.take(sys.argv[1:], environ)
        os.environ.pop(secret.FD, None)
        settings = config.parse(words, environ)
    except config.BadOptions as error:
        sys.stderr.write(f"shunter runner: {error}\n")
        return EXIT_WRONG_WORDS
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        if settings.fetch_kernel:
            return fetch_kernel(settings)
        if settings.report:
            return report(settings)
        return check(settings) if settings.check else serve(settings)
    except config.BadOptions as error:
        sys.stderr.write(f"shunter runner: {error}\n")
        return EXIT_REFUSED
    except leftovers.FolderInUse as error:
        sys.stderr.write(f"shunter runner: {error}\n")
        return EXIT_REFUSED
    except OSError as error:
        sys.stderr.write(f"shunter runner: {settings.work} cannot be used: {error}\n")
        return EXIT_REFUSED


def check(settings: config.Config) -> int:
    """Print what would be offered."""
    settings.work.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings, _ = _tried(settings)
    claim = Offer.of(settings, None).claim(None, ())
    sys.stdout.write(json.dumps(claim.model_dump(mode="json", exclude_none=True), indent=2) + "\n")
    return 0


def report(settings: config.Config) -> int:
    """Print what this machine can do, for people: each tier, each limit, and why not. 1: it has no tier."""
    settings.work.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = tiers.find(settings.tiers, settings.work)
    lines = [*tiers.lines(found), *_images_lines(settings)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if found.offered else EXIT_REFUSED


def fetch_kernel(settings: config.Config) -> int:
    """Fetch the kernel of guests into the runner's folder. 1: it cannot be had."""
    try:
        release = microvm_kernel.fetch(settings.work / microvm_check.FOLDER)
    except SandboxBroken as error:
        sys.stderr.write(f"shunter runner: no kernel was fetched: {error}\n")
        return EXIT_REFUSED
    sys.stdout.write(f"kernel {release} is in {settings.work / microvm_check.FOLDER}\n")
    return 0


def _tried(settings: config.Config) -> tuple[config.Config, tiers.Tiers]:
    """The settings with the tiers whose check passed, and these. Raises BadOptions where there is none."""
    found = tiers.find(settings.tiers, settings.work)
    for tier, why in (found.why or {}).items():
        log.warning("the %s tier is not offered: %s", tier, why)
    if not found.offered:
        raise config.BadOptions("none of the tiers that --tiers names works here (see: shunter runner check)")
    means = None if found.guests is None else found.guests.means
    accel = None if means is None else means.accel
    return dataclasses.replace(settings, tiers=found.offered, accel=accel), found


def serve(settings: config.Config) -> int:
    """Claim and run jobs; SIGTERM and SIGINT drain."""
    secret.shut_memory()
    lock = leftovers.take(settings.work)
    try:
        if count := leftovers.clean(settings.work):
            log.warning("removed what was left of %d jobs of an earlier life", count)
        settings, found = _tried(settings)
        cache = images_of(settings)
        hub = Hub(settings.url, settings.token, ca=settings.ca)
        try:
            return _watch(Agent(settings, hub, tiers=found, images=cache))
        finally:
            if cache is not None:
                cache.close()
    finally:
        os.close(lock)


def images_of(settings: config.Config) -> Images | None:
    """The images of this runner, if a tier that it offers uses any. Its folder's lock must be held."""
    limit_mib = default_limit_mib(settings.work) if settings.images_mib is None else settings.images_mib
    if settings.tiers == ("process",) or limit_mib == 0:
        return None
    ca = None if settings.ca is None else str(settings.ca)
    address = Address(url=settings.url, token=settings.token, agent=AGENT, ca=ca)
    return Images(settings.work / "images", limit_mib, address)


def _images_lines(settings: config.Config) -> list[str]:
    """Every image that is kept, read and found right or dropped, for people."""
    try:
        lock = leftovers.take(settings.work)
    except leftovers.FolderInUse:
        return ["images kept: not read, for a runner works in this folder"]
    try:
        shelf = Shelf(settings.work / "images")
        wrong = list(shelf.wrong())
        for image in wrong:
            shelf.demote(image, "its bytes have changed")
        kept = sum(one.bytes for one in shelf.held.values())
        told = [f"images kept: {len(shelf.held)}, {kept / 2**20:.1f} MiB, each found to have its name"]
        return told + [f"image {image} was not what its name says, and is dropped" for image in wrong]
    finally:
        os.close(lock)


def _watch(agent: Agent) -> int:
    """Run the agent in a thread; this one waits for signals, whose handlers do nothing themselves."""
    told, tell = os.pipe()
    ended, end = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: None)
    status = [EXIT_REFUSED]  # unless the agent says otherwise: it failed

    def run() -> None:
        try:
            status[0] = agent.run()
        except Exception:
            log.exception("the agent failed")
        finally:
            os.close(end)

    thread = threading.Thread(target=run, name="agent", daemon=True)
    thread.start()
    while True:
        ready, _, _ = select.select([told, ended], [], [])
        if told in ready:
            for each in os.read(told, 64):
                if each in SIGNALS:
                    log.warning("%s: draining; once more: now", signal.Signals(each).name)
                    agent.drain()
        if ended in ready:
            return status[0]


if __name__ == "__main__":
    sys.exit(main())
