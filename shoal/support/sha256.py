"""Hashes of texts."""

from __future__ import annotations

import hashlib


def sha256_of(text: str) -> str:
    """Return the SHA-256 (hex) of a text's UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()
