"""Images as they travel: the hub's cutter and bounds, what it lacks, manifests, names, sweeping, checking.

What an image, a chunk and a manifest are stands in `hub.chunks`; a test holds the bounds here to those
there. Chunks themselves travel as frames (`hub.chunks.frames`), not as JSON.
"""

from typing import Annotated

from pydantic import Field

from hub.wire.base import Answer, Arch, Hash, Owner, Request, Time

MAX_CALL_CHUNKS = 4096  # chunks in one call: 270 KB of names, some 300 MB of image
MAX_IMAGE_BYTES = 64 * 2**30
MAX_IMAGE_CHUNKS = 2**20  # chunks of one image
MAX_CHUNK_BYTES = 2**24  # of any cutter; the image's own cutter allows less
MAX_HISTORY = 100  # changes of a name that are kept: years of a weekly image
MAX_TOLD = 1000  # images or chunks that a report lists; it counts the rest

CallChunks = Annotated[list[Hash], Field(min_length=1, max_length=MAX_CALL_CHUNKS)]
ForOwner = Annotated[Owner | None, Field(description="whose images; None: as far as the token reaches")]


class ImageSettings(Answer):
    """GET /images/settings: the hub's one cutter, and what it takes in one call."""

    cutter: str
    min_bytes: int = Field(description="of a chunk, but for an image's last")
    average_bytes: int
    max_bytes: int = Field(description="of a chunk, not compressed")
    max_chunks: int = Field(description="in one call of missing, fetch or chunks")
    max_image_bytes: int
    max_image_chunks: int
    batch_bytes: int = Field(description="of a framed body, at most: one pack at rest")


class Missing(Request):
    """POST /images/missing. A chunk that need not be sent is kept for an hour, image or not."""

    chunks: CallChunks
    owner: ForOwner = None


class MissingAnswer(Answer):
    """Those that have to be sent, each once, in the order asked."""

    missing: list[str]


class Fetch(Request):
    """POST /images/chunks/fetch: answered by frames, in any order, each once; those not held are left out."""

    chunks: CallChunks


class ChunksKept(Answer):
    """PUT /images/chunks/{hash} and POST /images/chunks: what arrived, all of it durable now."""

    received: int = Field(description="chunks in the body, each verified")
    kept: int = Field(description="of them new to the hub")
    bytes: int = Field(description="of the new ones, as they rest")


class ManifestBody(Request):
    """PUT /images/{hash}: `hub.chunks.manifest` judges it as a whole."""

    bytes: Annotated[int, Field(ge=1, le=MAX_IMAGE_BYTES)]
    arch: Arch | None = Field(default=None, description="None: not known, matches any")
    cutter: Annotated[str, Field(min_length=1, max_length=64)]
    chunks: Annotated[
        list[tuple[Hash, Annotated[int, Field(ge=1, le=MAX_CHUNK_BYTES)]]],
        Field(min_length=1, max_length=MAX_IMAGE_CHUNKS, description="[hash, bytes] in order"),
    ]
    owner: ForOwner = None


class ManifestView(Answer):
    """GET /images/{hash}: immutable, but for `arch`, which a later push may tell."""

    hash: str
    bytes: int
    arch: str | None = None
    cutter: str
    chunks: list[tuple[str, int]]


class ImageView(Answer):
    """An image that the hub holds."""

    hash: str
    bytes: int
    arch: str | None = None
    cutter: str
    chunks: int = Field(description="how many it lists, repeats too")
    owner: str | None = Field(default=None, description="whose it is; None: for all")
    created_at: Time
    used_at: Time | None = Field(default=None, description="when a job last took it; None: never")
    names: list[str] = Field(default=[], description="that point to it now")
    stored_bytes: int | None = Field(default=None, description="of its chunks at rest, each once")
    shared_bytes: int = Field(default=0, description="of its own that other images list too")
    held_by: list[str] = Field(default=[], description="runners that hold it, as far as the reader sees them")
    held_by_others: int = Field(default=0, description="runners that hold it and are not named here")
    damaged: int = Field(default=0, description="chunks of it that are lost; a push heals them")


class ImageList(Answer):
    """GET /images, the newest first."""

    images: list[ImageView]
    more: int = Field(default=0, description="images beyond the bound of one answer")


class NamePut(Request):
    """PUT /images/names/{name}: from now on it points to `hash`. Runs already submitted keep theirs."""

    hash: Hash
    owner: ForOwner = None


class NameChange(Answer):
    """What a name pointed to, since when, and by whose token."""

    hash: str
    at: Time
    by: str | None = None


class NameView(Answer):
    """A name, what it points to, and what it pointed to before."""

    name: str
    hash: str
    owner: str | None = Field(default=None, description="whose it is; None: for all")
    updated_at: Time
    history: list[NameChange] = Field(default=[], description="the newest first, the present one too")


class NameList(Answer):
    """GET /images/names."""

    names: list[NameView]


class GcImage(Answer):
    """An image that a sweep takes, and why it may."""

    hash: str
    bytes: int
    reason: str = Field(description="as: no name, last used 40 days ago")


class GcPlan(Answer):
    """POST /images/gc?dry_run=true: what a sweep would take now."""

    images: list[GcImage] = []
    more_images: int = Field(default=0, description="taken too, and not listed")
    chunks: int = Field(default=0, description="that no image lists and nothing protects")
    packs: int = Field(default=0, description="files removed or written anew without them")
    bytes: int = Field(default=0, description="at rest that this frees")
    kept_images: int = Field(default=0, description="named, or needed by jobs that are not final")
    kept_chunks: int = Field(default=0, description="of no image, and protected: a push may be under way")


class GcReport(GcPlan):
    """POST /images/gc: the same figures, of what was taken."""

    took_s: float = 0.0


class DamagedChunk(Answer):
    """A chunk that does not read as it should: it counts as missing, and the next push heals it."""

    hash: str
    reason: str
    images: list[str] = Field(default=[], description="that list it")


class CheckProgress(Answer):
    """How far a check has come."""

    packs: int
    of_packs: int
    bytes: int = Field(description="read at rest")
    of_bytes: int


class CheckReport(Answer):
    """Every chunk read, and what was found."""

    chunks: int
    bytes: int = Field(description="read at rest")
    images: int
    damaged_chunks: list[DamagedChunk] = []
    damaged_images: list[str] = Field(default=[], description="with a chunk lost, or not their name's whole")
    more_damaged: int = Field(default=0, description="chunks damaged too, and not listed")
    orphan_packs: int = Field(default=0, description="files that no chunk stands in; a sweep removes them")
    sound: bool = Field(description="nothing is damaged")


class ImagePlace(Answer):
    """201 of PUT /images/{hash}."""

    hash: str
    bytes: int
    new: bool = Field(description="false: the hub held it already")
