"""An empty library where a test opens one."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoal.settings import Settings


def put_empty_library(migrated_file: Path, settings: Settings) -> None:
    """Copy an empty, migrated database to where `settings` name one; on PostgreSQL, it is there."""
    if settings.is_sqlite:
        shutil.copyfile(migrated_file, settings.database_path)
