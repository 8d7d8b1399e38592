"""What an admin can change on the page of the runners: drain one, and let it work again."""

from starlette.responses import Response

from hub.service import runners
from hub.web.visit import Visit, go
from hub.wire.fleet import ChangeRunner


async def drain_runner(visit: Visit) -> Response:
    """It finishes what it has and is offered nothing more."""
    await runners.change(visit.hub, visit.reader, _name(visit), ChangeRunner(state="draining"))
    return go("/runners")


async def resume_runner(visit: Visit) -> Response:
    """It takes jobs again; a quarantine ends too."""
    await runners.change(visit.hub, visit.reader, _name(visit), ChangeRunner(state="active"))
    return go("/runners")


def _name(visit: Visit) -> str:
    return str(visit.request.path_params["name"])
