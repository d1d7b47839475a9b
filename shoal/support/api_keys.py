"""API keys: who may read and who may write.

Only SHA-256 digests are kept and compared. A slow hash would add nothing: keys are long and random, so there is
nothing to guess from a digest, and every request pays for the comparison.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

MIN_CHARS = 16
MAX_CHARS = 256
"""Length of a key. Sixteen random characters are beyond guessing over a network."""

RANDOM_BYTES = 24
"""Of a key that is made here: 192 bits."""

PREFIX = "shoal_"
"""Of a key that is made here, so that people and scanners for secrets recognise one where it does not belong."""

HASHED = "sha256:"

# RFC 6750, the characters of a bearer token.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


class Scope(enum.StrEnum):
    """What a key allows; whoever may write may read."""

    read = "read"
    write = "write"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the service knows it: not the key itself."""

    digest: bytes = field(repr=False)
    scope: Scope

    @property
    def name(self) -> str:
        """What logs may say: enough to tell one key from another."""
        return self.digest.hex()[:8]


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """The keys of a setting: `[read:|write:]KEY` or `[read:|write:]sha256:HEX`, by commas; without a scope: write.

    Raises ValueError; its message says which entry is wrong by its place and never holds a key.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if entries == [""]:
        return ()
    keys = tuple(_parse(entry, place) for place, entry in enumerate(entries, 1))
    digests = [key.digest for key in keys]
    for place, digest in enumerate(digests, 1):
        if digest in digests[: place - 1]:
            raise ValueError(f"key {place} is there twice")
    return keys


def _parse(entry: str, place: int) -> ApiKey:
    scope = Scope.write
    for each in Scope:
        if entry.startswith(f"{each}:"):
            scope, entry = each, entry.removeprefix(f"{each}:")
    if entry.startswith(HASHED):
        digest = entry.removeprefix(HASHED)
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"key {place} is not the SHA-256 of a key: 64 hexadecimal digits")
        return ApiKey(bytes.fromhex(digest), scope)
    if not MIN_CHARS <= len(entry) <= MAX_CHARS:
        raise ValueError(
            f"key {place} must have {MIN_CHARS} to {MAX_CHARS} characters; `shoal new-key` makes one"
        )
    if not _TOKEN.fullmatch(entry):
        raise ValueError(f"key {place} may hold letters, digits and . _ ~ + / - only, with = at its end")
    return ApiKey(_digest(entry), scope)


def find_key(keys: Sequence[ApiKey], presented: str) -> ApiKey | None:
    """The key that was presented. Takes as long whichever it is, and whether it is one."""
    digest = _digest(presented)
    found = None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def new_key() -> str:
    """A random key."""
    return PREFIX + secrets.token_hex(RANDOM_BYTES)


def hashed(key: str) -> str:
    """A key as it may stand in a setting without being readable there."""
    return HASHED + _digest(key).hex()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
