"""Images: packs, chunks, images and what they list, who may use them, claims of pushes, names."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """New tables; what is there stays as it is."""
    op.create_table(
        "image_packs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "image_chunks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("pack_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("bad_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["pack_id"], ["image_packs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index("ix_image_chunks_pack_id", "image_chunks", ["pack_id"])
    op.create_index(
        "image_chunks_bad",
        "image_chunks",
        ["bad_ms"],
        sqlite_where=sa.text("bad_ms IS NOT NULL"),
        postgresql_where=sa.text("bad_ms IS NOT NULL"),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("arch", sa.String(), nullable=True),
        sa.Column("cutter", sa.String(), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "image_manifests",
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.PrimaryKeyConstraint("image_id"),
    )
    op.create_table(
        "image_links",
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("chunk_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.ForeignKeyConstraint(["chunk_id"], ["image_chunks.id"]),
        sa.PrimaryKeyConstraint("image_id", "chunk_id"),
    )
    op.create_index("image_links_by_chunk", "image_links", ["chunk_id"])
    op.create_table(
        "image_owners",
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("used_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.PrimaryKeyConstraint("image_id", "owner", "project"),
    )
    op.create_table(
        "image_claims",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("chunk_id", sa.Integer(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["chunk_id"], ["image_chunks.id"]),
        sa.PrimaryKeyConstraint("owner", "project", "chunk_id"),
    )
    op.create_index("image_claims_by_chunk", "image_claims", ["chunk_id"])
    op.create_index("image_claims_by_end", "image_claims", ["until_ms"])
    op.create_table(
        "image_names",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=True),
        sa.Column("set_ms", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("owner", "project", "name", "number", name="image_names_number"),
    )


def downgrade() -> None:
    """The way back, for a copy: a hub refuses a schema newer than itself and never goes back."""
    for table in (
        "image_names",
        "image_claims",
        "image_owners",
        "image_links",
        "image_manifests",
        "images",
        "image_chunks",
        "image_packs",
    ):
        op.drop_table(table)
