"""The tables of images: packs and the chunks in them, images and what they list, names, and claims.

A chunk is kept once, whoever sent it, and lives for as long as an image lists it or somebody's claim
on it runs. What may be read is decided by `image_owners` alone, never by knowing a hash. In columns
`owner` and `project` the empty text stands for all: ("", "") everybody, ("andy", "") all of andy's
projects, ("andy", "andy/demo") that one.

An image without a row in `image_owners` is being pushed, or being collected: nobody sees it.
"""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel


def _big() -> Column[int]:
    return Column(BigInteger, nullable=False)


class ImagePack(SQLModel, table=True):
    """A blob of many encoded chunks, one behind the other, as they came. Never changed; deleted whole."""

    __tablename__ = "image_packs"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)  # of the blob
    bytes: int = Field(sa_column=_big())
    created_ms: int = Field(sa_column=_big())


class ImageChunk(SQLModel, table=True):
    """Where a chunk rests. `bad_ms`: when it was found not to be what its name says; it counts as missing."""

    __tablename__ = "image_chunks"
    __table_args__ = (
        # nearly none are, and they are asked for whenever an image changes
        Index(
            "image_chunks_bad",
            "bad_ms",
            sqlite_where=text("bad_ms IS NOT NULL"),
            postgresql_where=text("bad_ms IS NOT NULL"),
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(unique=True)
    pack_id: int = Field(foreign_key="image_packs.id", index=True)
    start: int = Field(sa_column=_big())  # in the pack
    length: int  # as encoded
    bytes: int  # raw
    bad_ms: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


class Image(SQLModel, table=True):
    """A file whose chunks are all held and that was checked against its name."""

    __tablename__ = "images"

    id: int | None = Field(default=None, primary_key=True)
    hash: str = Field(unique=True)
    bytes: int = Field(sa_column=_big())
    arch: str | None = None
    cutter: str
    chunks: int  # in order, repeats counted
    created_ms: int = Field(sa_column=_big())


class ImageManifest(SQLModel, table=True):
    """The chunks of an image in order. Apart from the image, whose row is read often."""

    __tablename__ = "image_manifests"

    image_id: int = Field(foreign_key="images.id", primary_key=True)
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    digest: str  # BLAKE3 of `body`, as it was when the whole was checked


class ImageLink(SQLModel, table=True):
    """An image lists a chunk, once or often."""

    __tablename__ = "image_links"
    __table_args__ = (Index("image_links_by_chunk", "chunk_id"),)

    image_id: int = Field(foreign_key="images.id", primary_key=True)
    chunk_id: int = Field(foreign_key="image_chunks.id", primary_key=True)


class ImageOwner(SQLModel, table=True):
    """Who may use an image, since when, and when a job of theirs last asked for it."""

    __tablename__ = "image_owners"

    image_id: int = Field(foreign_key="images.id", primary_key=True)
    owner: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    created_ms: int = Field(sa_column=_big())
    used_ms: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


class ImageClaim(SQLModel, table=True):
    """A push under way counts on a chunk: it sent it, or was told that it need not.

    Until then the chunk is not collected, and whoever has the claim may list it in a manifest.
    """

    __tablename__ = "image_claims"
    __table_args__ = (
        Index("image_claims_by_chunk", "chunk_id"),
        Index("image_claims_by_end", "until_ms"),
    )

    owner: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    chunk_id: int = Field(foreign_key="image_chunks.id", primary_key=True)
    until_ms: int = Field(sa_column=_big())


class ImageName(SQLModel, table=True):
    """A name was pointed to an image, or (`hash` None) taken away. The newest row of a name counts."""

    __tablename__ = "image_names"
    __table_args__ = (UniqueConstraint("owner", "project", "name", "number", name="image_names_number"),)

    id: int | None = Field(default=None, primary_key=True)
    owner: str
    project: str
    name: str
    number: int  # from 1, within the name
    hash: str | None = None
    set_ms: int = Field(sa_column=_big())
    set_by: str = Field(sa_column=Column(Text, nullable=False))  # name of the token
