"""Runs the chain of migrations on the connection that `hub.store.migrate` hands over.

The caller has begun the transaction and ends it: what fails leaves neither half a schema nor a
version that says otherwise. There is no alembic.ini, and no other way in.
"""

from alembic import context
from sqlmodel import SQLModel

import hub.store.image_casync
import hub.store.image_tables
import hub.store.result_tables
import hub.store.tables  # noqa: F401 - all fill SQLModel.metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite alters a column only by copying its table
)
with context.begin_transaction():
    context.run_migrations()
