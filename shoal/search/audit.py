"""A line of JSON for every search: what was asked, of which library, and how each result came by its place.

With the text of the query (`full`), a line is enough to ask the same again and, as long as the library is the same, to
get the same ranking to the last digit (`arguments_of`). Without it (`summary`), it tells nothing that was typed but its
hash. `docs/audit.md` describes the fields.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import hashlib
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.models import SearchFilters, SearchResponse
from shoal.storage import vocabulary_queries
from shoal.support.clock import timestamp
from shoal.support.request_context import KEY_NAME
from shoal.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.search.query_analysis import AnalyzedQuery
    from shoal.search.ranking import Ranked, Ranking
    from shoal.search.request import SearchRequest
    from shoal.settings import Settings
    from shoal.storage.database import Snapshot

MOST_CANDIDATES = 100
"""Candidates of each signal that a full line names, the best of them."""

LIBRARY = """
    SELECT (SELECT COUNT(*) FROM chunks) AS n_chunks, (SELECT COALESCE(MAX(id), 0) FROM chunks) AS last_chunk_id,
           (SELECT COALESCE(MAX(revision), 0) FROM rescored_documents) AS revision
"""
RANKING_SETTINGS = ("reefs_per_query", "max_query_terms", "learning", "feedback_weight")
"""Settings that a ranking depends on besides what was asked."""
ASKED = ("mode", "fusion", "preset", "top_k", "offset", "max_per_document")

log = logging.getLogger(__name__)


class AuditLevel(enum.StrEnum):
    off = "off"
    summary = "summary"
    full = "full"


class AuditLog:
    """Where the lines go: to the end of a file, or to stderr. Safe to share between threads and processes."""

    def __init__(self, level: AuditLevel, path: Path | None) -> None:
        self.level = level
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> AuditLog:
        """As the settings want it."""
        path = Path(settings.audit_file).absolute() if settings.audit_file else None
        return cls(AuditLevel(settings.audit), path)

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add a line. A search is answered also where that fails; the log says so then."""
        line = json.dumps(entry, ensure_ascii=True, separators=(",", ":")) + "\n"
        try:
            with self._lock:
                if self._path is None:
                    sys.stderr.write(line)
                    sys.stderr.flush()
                else:
                    _append(self._path, line.encode())
        except OSError as error:
            log.error("audit line of %s not written: %s", entry.get("trace_id"), error.strerror or error)


def entry_of(
    level: AuditLevel,
    snapshot: Snapshot,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    ranking: Ranking,
    ranked: Sequence[Ranked],
) -> dict[str, Any]:
    """What there is to say of a search; `ranked` are its results. Nothing of the query but its hash, unless `full`."""
    is_full = level is AuditLevel.full
    library = snapshot.first(LIBRARY)
    entry = {
        "event": "search",
        "shoal": __version__,
        "query_sha256": hashlib.sha256(request.query.encode()).hexdigest(),
        **({"query": request.query} if is_full else {}),
        **{name: getattr(request, name) for name in ASKED},
        "filters": _filters(request.filters),
        "weights_asked": None if request.weights is None else dict(request.weights),
        "weights": analyzed_query.weights._asdict(),
        "settings": {name: getattr(settings, name) for name in RANKING_SETTINGS},
        "vocabulary_version": vocabulary_queries.newest(snapshot).number,
        "data_version": scorer.data_version,
        "data_checksum": scorer.data_checksum,
        "library": {name: library[name] for name in ("n_chunks", "last_chunk_id", "revision")},
        "candidates": {
            "lexical": _candidates(ranking, "lexical_raw", is_full),
            "reef": _candidates(ranking, "reef_raw", is_full),
            "results": int(ranking.order.is_result.sum()),
        },
        "results": [
            {"rank": rank, **_result(one)} for rank, one in enumerate(ranked, start=request.offset + 1)
        ],
    }
    if is_full:
        entry["query_reefs"] = [[reef.reef_id, reef.z_score] for reef in analyzed_query.reefs]
        # They name words of the query.
        entry["warnings"] = list(analyzed_query.warnings)
    return entry


def finished(entry: dict[str, Any], response: SearchResponse) -> dict[str, Any]:
    """The entry with what is known once the answer is: when, under which trace id, with whose key, and how long it
    took."""
    known = {"at": timestamp(), "trace_id": response.trace_id, "key": KEY_NAME.get()}
    return {**known, **entry, "took_ms": response.took_ms}


def arguments_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Engine.search` that ask for the same as a full entry."""
    return {
        "query": entry["query"],
        **{name: entry[name] for name in ASKED},
        "weights": entry["weights_asked"],
        "filters": entry["filters"],
    }


def _filters(filters: SearchFilters) -> dict[str, Any]:
    """Those that were asked for."""
    plain = SearchFilters()
    asked = {field.name: getattr(filters, field.name) for field in dataclasses.fields(filters)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asked.items()
        if value != getattr(plain, name)
    }


def _candidates(ranking: Ranking, score: str, is_full: bool) -> dict[str, Any]:
    """How many chunks a signal found, its best score, which is 1 in a blend, and, if `full`, the best chunks."""
    raw: NDArray[np.int64] = getattr(ranking, score)
    found = np.flatnonzero(raw > 0)
    first = found[np.argsort(-raw[found], kind="stable")][: MOST_CANDIDATES if is_full else 1]
    scored = [[one, getattr(ranking.of(one, 0), score)] for one in ranking.chunk_ids[first].tolist()]
    entry: dict[str, Any] = {"n": len(found), "best": scored[0][1] if scored else 0.0}
    return {**entry, "first": scored} if is_full else entry


def _result(one: Ranked) -> dict[str, Any]:
    names = ("chunk_id", "document_id", "score", "lexical", "reef", "field_boost", "lexical_raw", "reef_raw")
    return {name: getattr(one, name) for name in names}


def _append(path: Path, data: bytes) -> None:
    """Add to a file, which is made readable for its owner only. It may be moved away at any time, as log rotation does."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # In one piece: lines of other processes do not come between.
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
