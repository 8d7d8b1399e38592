"""${message}"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """What this changes, and what becomes of the rows that are there."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """The way back, for a copy: a hub refuses a schema newer than itself and never goes back."""
    ${downgrades if downgrades else "pass"}
