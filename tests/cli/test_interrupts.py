import gc
import os
import signal
import time

import pytest

from hub.cli import interrupts
from hub.cli.interrupts import Interrupts


class _SignalledAtItsEnd:
    """Raises the signal while Python collects it, where an exception is dropped."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # the handler runs between two steps of this
            pass


def _signal_and_wait(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(5)


def _drop_and_wait() -> None:
    dropped = _SignalledAtItsEnd()
    del dropped
    gc.collect()
    time.sleep(5)


# pytest-timeout uses the same timer: these tests bound themselves.
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_interrupts(number: signal.Signals) -> None:
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        _signal_and_wait(number)


@pytest.mark.timeout(0)
def test_a_request_that_python_drops_is_raised_again() -> None:
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        _drop_and_wait()


@pytest.mark.timeout(0)
def test_once_it_was_heard_nothing_disturbs() -> None:
    with Interrupts() as asked:
        with pytest.raises(KeyboardInterrupt):
            _signal_and_wait(signal.SIGTERM)
        asked.calm()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(interrupts.AGAIN_S * 1.5)


@pytest.mark.timeout(0)
def test_afterwards_every_handler_is_as_it_was() -> None:
    before = [
        signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    ]
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    after = [
        signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    ]
    assert after == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
