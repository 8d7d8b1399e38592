"""What a reader may see of the fleet: a name beyond its reach is counted, not told."""

from hub.dispatch.fleet import LiveRunner
from hub.service.access import Principal, reaches
from hub.service.hub import Hub
from hub.wire.fleet import Scope


def visible_runners(hub: Hub, principal: Principal) -> frozenset[str] | None:
    """Names that the reader may see: those that serve a project within its reach. None: all."""
    if principal.everywhere:
        return None
    return frozenset(name for name, live in hub.dispatch.fleet.live.items() if sees(principal, live))


def sees(principal: Principal, live: LiveRunner) -> bool:
    """Whether a runner could serve a project that the reader's token reaches."""
    mine = principal.scope
    if mine.project is not None:
        return reaches(Scope(owner=live.owner, project=live.project), mine.project)
    if mine.owner is None or (live.owner is None and live.project is None):
        return True
    return mine.owner in (live.owner, (live.project or "").partition("/")[0])
