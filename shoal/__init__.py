"""Shoal: retrieval that explains itself. `Engine` is its interface; `docs/` has a tour.

Names are imported on first use, so that a command that needs only one of them starts quickly.
"""

from __future__ import annotations

import importlib

from shoal.version import __version__

# Known to type checkers; to import it from `typing` would take a tenth of the time of a hook.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shoal.declared.filters import SearchFilters
    from shoal.engine import Engine
    from shoal.errors import ShoalError
    from shoal.models.documents import DocFormat, IngestResult
    from shoal.models.queries import QueryInfo
    from shoal.models.scores import SharedReef
    from shoal.models.search import SearchMode, SearchResponse, SearchResult

_HOMES = {
    "DocFormat": "shoal.models.documents",
    "Engine": "shoal.engine",
    "IngestResult": "shoal.models.documents",
    "QueryInfo": "shoal.models.queries",
    "SearchFilters": "shoal.declared.filters",
    "SearchMode": "shoal.models.search",
    "SearchResponse": "shoal.models.search",
    "SearchResult": "shoal.models.search",
    "SharedReef": "shoal.models.scores",
    "ShoalError": "shoal.errors",
}
__all__ = [
    "DocFormat",
    "Engine",
    "IngestResult",
    "QueryInfo",
    "SearchFilters",
    "SearchMode",
    "SearchResponse",
    "SearchResult",
    "SharedReef",
    "ShoalError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")
