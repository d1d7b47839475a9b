"""Alembic environment: runs migrations on the connection that `shoal.storage.migrate` passes."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
