"""The page on which a pipeline is tried: where its jobs would go, or what is wrong with it.

It changes nothing, and takes a form all the same, for a pipeline is longer than an address.
"""

from starlette.responses import Response

from hub.errors import BadRequest, HubError, NotFound
from hub.service import preview
from hub.web.contexts import PreviewPage
from hub.web.session import read_form
from hub.web.visit import Visit
from hub.wire.problem import Fault
from hub.wire.runs import Preview, Submit

MAX_FORM_BYTES = 4 * 2**20  # a pipeline of 1 MiB, of which each character may take three in a form


async def preview_page(visit: Visit) -> Response:
    """The empty form; `?project=` is filled in."""
    return _page(visit, visit.request.query_params.get("project", "") or visit.reader.scope.project or "", "")


async def preview_form(visit: Visit) -> Response:
    """The same page, with the answer, or with what is wrong."""
    reader = visit.reader
    form = await read_form(visit.request, limit=MAX_FORM_BYTES)
    project, pipeline = form.get("project", "").strip(), form.get("pipeline", "").replace("\r\n", "\n")
    try:
        message = Submit(project=project, pipeline=pipeline)
    except ValueError:  # the one that has a form is the project, and the other is shorter than the form
        return _page(visit, project, pipeline, problem="A project is named owner/name.", status=422)
    try:
        result = await preview.preview(visit.hub, reader, message)
    except (BadRequest, NotFound) as error:
        return _wrong(visit, project, pipeline, error)
    return _page(visit, project, pipeline, result=result)


def _wrong(visit: Visit, project: str, pipeline: str, error: HubError) -> Response:
    count = len(error.faults)
    problem = (
        f"{count} {'fault' if count == 1 else 'faults'} in the pipeline file:" if count else error.detail
    )
    return _page(visit, project, pipeline, problem=problem, faults=tuple(error.faults), status=error.status)


def _page(
    visit: Visit,
    project: str,
    pipeline: str,
    *,
    result: Preview | None = None,
    problem: str = "",
    faults: tuple[Fault, ...] = (),
    status: int = 200,
) -> Response:
    page = PreviewPage(
        frame=visit.frame("Preview", "preview"),
        project=project,
        pipeline=pipeline,
        result=result,
        problem=problem,
        faults=faults,
    )
    return visit.site.respond(page, status)
