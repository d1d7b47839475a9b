"""The identity of a document: its text, and how it is cut if that is not the default."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from shoal.models.passages import Passage
from shoal.models.token_range import ANY_TOKENS

SEPARATOR = b"\0"
"""Between the text, which has no NUL, and how it is cut."""


def content_hash(encoded: bytes, chunk_tokens: str, passages: Sequence[Passage]) -> str:
    """The SHA-256 (hex) of a text's UTF-8; unless it is cut by default, a NUL and how it is cut follow."""
    digest = hashlib.sha256(encoded)
    if chunk_tokens != ANY_TOKENS:
        digest.update(SEPARATOR + chunk_tokens.encode())
        digest.update(json.dumps(passages, ensure_ascii=False, separators=(",", ":")).encode())
    return digest.hexdigest()
