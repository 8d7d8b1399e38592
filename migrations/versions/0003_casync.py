"""What casync calls a chunk, where somebody asked for it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A new table; what is there stays as it is."""
    op.create_table(
        "image_casync",
        sa.Column("chunk_id", sa.Integer(), nullable=False),
        sa.Column("casync", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["chunk_id"], ["image_chunks.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("chunk_id"),
        sa.UniqueConstraint("casync"),
    )


def downgrade() -> None:
    """The way back, for a copy: a hub refuses a schema newer than itself and never goes back."""
    op.drop_table("image_casync")
