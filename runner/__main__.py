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

from runner import config, leftovers, secret, tiers
from runner.agent import EXIT_REFUSED, Agent
from runner.client import Hub
from runner.offer import Offer

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
    sys.stdout.write("".join(f"{line}\n" for line in tiers.lines(found)))
    return 0 if found.offered else EXIT_REFUSED


def _tried(settings: config.Config) -> tuple[config.Config, tiers.Tiers]:
    """The settings with the tiers whose check passed, and these. Raises BadOptions where there is none."""
    found = tiers.find(settings.tiers, settings.work)
    for tier, why in (found.why or {}).items():
        log.warning("the %s tier is not offered: %s", tier, why)
    if not found.offered:
        raise config.BadOptions("none of the tiers that --tiers names works here (see: shunter runner check)")
    return dataclasses.replace(settings, tiers=found.offered), found


def serve(settings: config.Config) -> int:
    """Claim and run jobs; SIGTERM and SIGINT drain."""
    secret.shut_memory()
    lock = leftovers.take(settings.work)
    try:
        if count := leftovers.clean(settings.work):
            log.warning("removed what was left of %d jobs of an earlier life", count)
        settings, found = _tried(settings)
        agent = Agent(settings, Hub(settings.url, settings.token, ca=settings.ca), tiers=found)
        return _watch(agent)
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
