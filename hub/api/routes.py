"""Every call of the API, on one screen. The router and the OpenAPI document are made from this."""

from starlette.routing import Route

from hub.api import admin, images, people, runner_calls, streams
from hub.api.route import Call, Param
from hub.chunks.frames import MEDIA_TYPE
from hub.wire import claim, fleet, results, runs
from hub.wire import images as wire

BASE = "/api/v1"

LEASE = Param(name="Lease", where="header", required=True, text="token of the attempt's lease")
PROJECT = Param(name="project", required=True, text="owner/name")
OFFSET = Param(name="offset", type="integer", text="byte to begin at")
ATTEMPT = Param(name="attempt", type="integer", text="number of the attempt; the newest by default")
RUN_FILTERS = (
    Param(name="project", text="owner/name"),
    Param(name="status"),
    Param(name="search", text="words of the title, the ref or the commit"),
    Param(name="before", type="integer", text="runs older than this one"),
    Param(name="limit", type="integer"),
)
LAST_EVENT = Param(name="Last-Event-ID", where="header", text="goes on after this event of the log")
REPORT = Param(name="report", text="junit or coverage: read it as such, and tell what it says with the job")
SSE = "text/event-stream"
BYTES = "application/octet-stream"
OWNER = Param(name="owner", text="whose name it is; as far as the token reaches by default")
DRY_RUN = Param(name="dry_run", text="true: nothing is taken")

# fmt: off
CALLS = (
    # a runner claims a job, and works on it
    Call(method="POST", path="/claim", handler=runner_calls.claim, who="runner", takes=claim.Claim, gives=claim.Assignment, text="A job for this runner; 204: nothing within `wait_s`"),
    Call(method="POST", path="/jobs/{id}/start", handler=runner_calls.start, who="runner", takes=claim.Start, text="The claim arrived; 409: drop the job without running it"),
    Call(method="POST", path="/jobs/{id}/heartbeat", handler=runner_calls.heartbeat, who="runner", takes=claim.Heartbeat, gives=claim.Pulse, text="The attempt lives"),
    Call(method="POST", path="/jobs/{id}/log", handler=runner_calls.append_log, who="runner", takes_bytes=True, gives=claim.LogOffset, params=(LEASE, OFFSET), text="Bytes that begin at `offset`; 409 with the offset wanted where there is a gap"),
    Call(method="POST", path="/jobs/{id}/finish", handler=runner_calls.finish, who="runner", takes=claim.Finish, text="The job has ended; the same again is accepted again"),
    Call(method="POST", path="/jobs/{id}/decline", handler=runner_calls.decline, who="runner", takes=claim.GiveBack, text="This runner will not take it; the job keeps its place in the queue"),
    Call(method="POST", path="/jobs/{id}/release", handler=runner_calls.release, who="runner", takes=claim.GiveBack, text="Given back; queued again at once, no retry spent"),
    Call(method="GET", path="/jobs/{id}/workspace", handler=runner_calls.get_workspace, who="runner", params=(LEASE,), media="application/zstd", text="The packed folder the job runs in: tar, zstd"),
    Call(method="PUT", path="/jobs/{id}/artifacts/{path:path}", handler=runner_calls.put_artifact, who="runner", takes_bytes=True, gives=runs.Artifact, status=201, params=(LEASE, REPORT), text="A file that the job left"),
    Call(method="POST", path="/runner/drain", handler=runner_calls.drain, who="runner", takes=claim.Drain, text="The runner finishes what it has and is offered nothing more"),
    # people and programs
    Call(method="POST", path="/runs", handler=people.submit_run, who="submit", takes=runs.Submit, gives=runs.Submitted, status=201, text="Submit a pipeline"),
    Call(method="GET", path="/runs", handler=people.list_runs, who="read", gives=runs.RunList, params=RUN_FILTERS, text="Runs, newest first"),
    Call(method="GET", path="/runs/{id}", handler=people.view_run, who="read", gives=runs.RunView, text="One run with its jobs"),
    Call(method="GET", path="/runs/{id}/events", handler=streams.of_run, who="read", media=SSE, text="The run at each change"),
    Call(method="POST", path="/runs/{id}/cancel", handler=people.cancel_run, who="submit", text="End what waits at once, and tell the runners of what runs"),
    Call(method="POST", path="/runs/{id}/retry", handler=people.retry_run, who="submit", gives=runs.Submitted, status=201, text="A new run of the jobs that did not succeed"),
    Call(method="GET", path="/jobs/{id}", handler=people.view_job, who="read", gives=runs.JobView, text="One job"),
    Call(method="GET", path="/jobs/{id}/log", handler=people.job_log, who="read", media="text/plain", params=(OFFSET, ATTEMPT, Param(name="limit", type="integer")), text="Its log; `Log-Bytes` is the length now"),
    Call(method="GET", path="/jobs/{id}/events", handler=streams.of_job, who="read", media=SSE, params=(LAST_EVENT,), text="Its state and its log, live"),
    Call(method="GET", path="/jobs/{id}/placement", handler=people.job_placement, who="read", gives=runs.Comparison, text="The whole comparison behind `placed`, or behind `waiting`"),
    Call(method="POST", path="/jobs/{id}/cancel", handler=people.cancel_job, who="submit", text="End this job"),
    Call(method="POST", path="/jobs/{id}/retry", handler=people.retry_job, who="submit", gives=runs.Submitted, status=201, text="A new run of this job and of those that need it"),
    Call(method="GET", path="/jobs/{id}/artifacts", handler=people.list_artifacts, who="read", gives=runs.ArtifactList, text="What its newest attempt left"),
    Call(method="GET", path="/jobs/{id}/artifacts/{path:path}", handler=people.get_artifact, who="read", media=BYTES, text="One file that it left"),
    Call(method="GET", path="/jobs/{id}/results", handler=people.job_results, who="read", gives=results.Results, text="Its tests: how many, which failed, which are slow or flaky; its coverage"),
    Call(method="POST", path="/preview", handler=people.preview_run, who="read", takes=runs.Submit, gives=runs.Preview, text="Where the jobs of a pipeline would go now; nothing is queued"),
    Call(method="HEAD", path="/workspaces/{hash}", handler=people.has_workspace, who="submit", params=(PROJECT,), text="200: the hub has this packed folder; 404: send it", status=200),
    Call(method="PUT", path="/workspaces/{hash}", handler=people.put_workspace, who="submit", takes_bytes=True, gives=fleet.WorkspaceSaved, status=201, params=(PROJECT,), text="A packed folder (tar, zstd), named by the BLAKE3 of its bytes"),
    # images; the paths with words before those with hashes
    Call(method="GET", path="/images/settings", handler=images.settings, who="anybody", gives=wire.ImageSettings, text="The hub's one cutter, and its bounds"),
    Call(method="GET", path="/images/check", handler=images.check_images, who="admin", media=SSE, text="Reads every chunk at rest: `progress`, then `report`"),
    Call(method="GET", path="/images/names", handler=images.list_image_names, who="read", gives=wire.NameList, text="What each name means, and meant before"),
    Call(method="PUT", path="/images/names/{name}", handler=images.put_image_name, who="images", takes=wire.NamePut, gives=wire.NameView, text="Point a name to an image; runs already submitted keep theirs"),
    Call(method="DELETE", path="/images/names/{name}", handler=images.remove_image_name, who="images", params=(OWNER,), text="Let a name mean nothing any more"),
    Call(method="POST", path="/images/missing", handler=images.missing, who="images", takes=wire.Missing, gives=wire.MissingAnswer, text="Which chunks have to be sent; the others stay for an hour"),
    Call(method="POST", path="/images/gc", handler=images.collect_images, who="images", gives=wire.GcReport, params=(DRY_RUN,), text="Take away what nobody needs, or tell what that would be"),
    Call(method="POST", path="/images/chunks", handler=images.put_chunks, who="images", takes_bytes=True, gives=wire.ChunksKept, status=201, text="Many chunks in one framed body, kept pack by pack"),
    Call(method="POST", path="/images/chunks/fetch", handler=images.fetch_chunks, who="anybody", takes=wire.Fetch, media=MEDIA_TYPE, text="Many chunks in one framed stream; those not held are left out"),
    Call(method="PUT", path="/images/chunks/{hash}", handler=images.put_chunk, who="images", takes_bytes=True, gives=wire.ChunksKept, status=201, text="One chunk: a zstd frame, named by the BLAKE3 of what it holds"),
    Call(method="GET", path="/images/chunks/{hash}", handler=images.get_chunk, who="anybody", media="application/zstd", text="One chunk; it never changes"),
    Call(method="GET", path="/images", handler=images.list_images, who="read", gives=wire.ImageList, text="The images, newest first"),
    Call(method="PUT", path="/images/{hash}", handler=images.put_image, who="images", takes=wire.ManifestBody, gives=wire.ImagePlace, status=201, text="A manifest: accepted when every chunk is held and the whole has its name"),
    Call(method="GET", path="/images/{hash}", handler=images.view_image, who="anybody", gives=wire.ManifestView, text="The manifest of an image"),
    Call(method="DELETE", path="/images/{hash}", handler=images.remove_image, who="images", text="Remove an image that no name means and no unfinished job needs"),
    Call(method="GET", path="/queue", handler=people.view_queue, who="read", gives=fleet.QueueView, text="What waits, and why"),
    Call(method="GET", path="/fleet", handler=people.view_fleet, who="read", gives=fleet.FleetView, text="Each runner's headroom, and what the queue lacks by shape"),
    Call(method="GET", path="/me", handler=people.me, who="anybody", gives=fleet.Me, text="Whose token this is"),
    # the hub itself
    Call(method="GET", path="/runners", handler=admin.list_runners, who="read", gives=fleet.RunnerList, text="The runners"),
    Call(method="POST", path="/runners", handler=admin.add_runner, who="admin", takes=fleet.NewRunner, gives=fleet.NewRunnerToken, status=201, text="Add a runner; its token is shown once"),
    Call(method="GET", path="/runners/{name}", handler=admin.view_runner, who="read", gives=fleet.RunnerView, text="One runner"),
    Call(method="PATCH", path="/runners/{name}", handler=admin.change_runner, who="admin", takes=fleet.ChangeRunner, gives=fleet.RunnerView, text="Drain or resume it, or change its labels or scope"),
    Call(method="DELETE", path="/runners/{name}", handler=admin.remove_runner, who="admin", text="Remove it; what it ran is queued again"),
    Call(method="GET", path="/journal", handler=admin.view_journal, who="admin", media="application/x-ndjson", text="The decisions of late with all they were made from, one JSON object a line"),
    Call(method="GET", path="/tokens", handler=admin.list_tokens, who="admin", gives=fleet.TokenList, text="The API tokens"),
    Call(method="POST", path="/tokens", handler=admin.add_token, who="admin", takes=fleet.NewToken, gives=fleet.TokenMade, status=201, text="Make a token; its secret is shown once"),
    Call(method="DELETE", path="/tokens/{id}", handler=admin.remove_token, who="admin", text="Revoke it, at once"),
)
# fmt: on


def routes() -> list[Route]:
    """The calls as routes of the server."""
    return [Route(BASE + call.path, call.handler, methods=[call.method]) for call in CALLS]
