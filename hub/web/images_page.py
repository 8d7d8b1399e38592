"""The page of the images: what the hub holds, who has it, and what is damaged."""

from starlette.responses import Response

from hub.service import images_show
from hub.web.contexts import ImagesPage
from hub.web.visit import Visit


async def images_page(visit: Visit) -> Response:
    """The images that the reader may read, newest first."""
    found = await images_show.listing(visit.hub, visit.reader)
    return visit.site.respond(ImagesPage(frame=visit.frame("Images", "images"), images=found))
