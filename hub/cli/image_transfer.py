"""Chunks to and from the hub that a command means, with failures as the command line tells them."""

from collections.abc import Iterator
from contextlib import contextmanager

from hub.carry.link import Address, Denied, LinkError, Lost
from hub.carry.transfer import Patience, Transfer
from hub.cli.errors import CliError, Refused, Unreachable, Usage
from hub.cli.login import Target

AGENT = "shunter"
PATIENCE = Patience()  # a hub that restarts is back within it


@contextmanager
def transferring(target: Target) -> Iterator[Transfer]:
    """A Transfer; what it raises leaves as a CliError."""
    try:
        with Transfer(Address(url=target.url, token=target.token, agent=AGENT), patience=PATIENCE) as made:
            yield made
    except Lost as error:
        raise Unreachable(f"{target.url} cannot be reached: {error}") from None
    except Denied as error:
        raise _refused(target, error) from None
    except LinkError as error:
        raise CliError(str(error)) from None


def _refused(target: Target, error: Denied) -> CliError:
    if 300 <= error.status < 400:
        return Usage(f"{target.url} sends on elsewhere: give --hub the address it means")
    if error.status == 401 and not target.token:
        return Refused(401, {"detail": f"{target.url} wants a token: shunter login"})
    return Refused(error.status, error.problem or {"detail": str(error)})
