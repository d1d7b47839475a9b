"""Limits of input."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between
from shoal.settings.declaration import setting
from shoal.support.byte_units import GIB, KIB, MIB


@dataclass(frozen=True, kw_only=True)
class InputLimits:
    """Limits of what documents, queries and uploads may have."""

    max_query_chars: int = setting(4096, "longest query, characters", at_least(1))
    # A hundred words take 0.3 s in 100,000 chunks and find nothing that the first few dozen do not.
    max_query_terms: int = setting(
        64,
        "most distinct words of a query that are searched for, words of phrases included, and most excluded "
        "words; the query's profile uses all words",
        between(1, 1000),
    )
    search_timeout: float = setting(
        10.0,
        "a search or another read of a request is stopped after this many seconds; 0: no limit",
        at_least(0),
    )
    max_top_k: int = setting(100, "most results a search may ask for", between(10, 10_000))
    max_title_chars: int = setting(512, "longest title, characters", at_least(1))
    max_source_path_chars: int = setting(1024, "longest source path, characters", at_least(1))
    max_tag_chars: int = setting(64, "longest tag, characters", at_least(1))
    max_tags: int = setting(64, "most tags of a document", at_least(0))
    max_metadata_bytes: int = setting(64 * KIB, "largest metadata of a document, bytes of JSON", at_least(2))
    max_document_bytes: int = setting(32 * MIB, "largest document, bytes of UTF-8", at_least(1))
    max_file_bytes: int = setting(
        128 * MIB, "largest file that is converted or fetched, such as a PDF, bytes", at_least(1)
    )
    max_upload_bytes: int = setting(2 * GIB, "largest upload, bytes", at_least(1))
    max_upload_items: int = setting(100_000, "most documents in one upload", at_least(1))
    max_archive_ratio: float = setting(
        200.0, "largest ratio of unpacked to packed size, for an archive and each file in it", at_least(1)
    )
    min_charset_confidence: float = setting(
        0.8, "lowest confidence at which an encoding other than UTF-8 is accepted, 0 to 1", between(0, 1)
    )
