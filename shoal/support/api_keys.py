"""API keys and their scopes.

Only SHA-256 digests are kept and compared. A slow hash would add nothing: keys are long and random, so a
digest gives nothing to guess, and every request pays for the comparison.
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
"""Length of a key. Sixteen random characters cannot be guessed over a network."""

RANDOM_BYTES = 24
"""Random bytes of a generated key: 192 bits."""

PREFIX = "shoal_"
"""Prefix of a generated key, so that people and secret scanners recognise a leaked key."""

HASHED = "sha256:"

# RFC 6750, the characters of a bearer token.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


class Scope(enum.StrEnum):
    """What a key allows; each scope includes the ones before it.

    `write` allows everything but the management of keys, which `admin` adds.
    """

    read = "read"
    write = "write"
    admin = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the service holds it: its digest, not the key itself."""

    digest: bytes = field(repr=False)
    scope: Scope

    @property
    def name(self) -> str:
        """A name for logs, which distinguishes keys without revealing them."""
        return self.digest.hex()[:8]


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """Parse keys separated by commas: `[SCOPE:]KEY` or `[SCOPE:]sha256:HEX`. The default scope is write.

    Raises ValueError; its message gives the position of the invalid entry and never contains a key.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if entries == [""]:
        return ()
    keys = tuple(_parse(entry, position) for position, entry in enumerate(entries, 1))
    digests = [key.digest for key in keys]
    for position, digest in enumerate(digests, 1):
        if digest in digests[: position - 1]:
            raise ValueError(f"key {position} is a duplicate")
    return keys


def _parse(entry: str, position: int) -> ApiKey:
    scope = Scope.write
    for known_scope in Scope:
        if entry.startswith(f"{known_scope}:"):
            scope, entry = known_scope, entry.removeprefix(f"{known_scope}:")
    if entry.startswith(HASHED):
        digest = entry.removeprefix(HASHED)
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"key {position} is not the SHA-256 of a key: 64 hexadecimal digits")
        return ApiKey(bytes.fromhex(digest), scope)
    if not MIN_CHARS <= len(entry) <= MAX_CHARS:
        raise ValueError(
            f"key {position} must have {MIN_CHARS} to {MAX_CHARS} characters; `shoal new-key` makes one"
        )
    if not _TOKEN.fullmatch(entry):
        raise ValueError(
            f"key {position} may contain only letters, digits and . _ ~ + / -, with = at its end"
        )
    return ApiKey(digest_of(entry), scope)


def find_key(keys: Sequence[ApiKey], presented: str) -> ApiKey | None:
    """Return the key that matches `presented`, or None. The time does not depend on which key matches, or
    whether."""
    digest = digest_of(presented)
    match = None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            match = key
    return match


def new_key() -> str:
    """Generate a random key."""
    return PREFIX + secrets.token_hex(RANDOM_BYTES)


def hash_key(key: str) -> str:
    """Return the hash of a key in the form that `parse_keys` reads."""
    return HASHED + digest_of(key).hex()


def digest_of(key: str) -> bytes:
    """Return the SHA-256 of a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
