"""Search tokens: short-lived JWTs (RFC 7519) that an application signs for its users with Ed25519 (RFC 8037).

The service stores the public key of an application and never a secret that can sign. `EdDSA` is the only
algorithm, whatever a token names.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.support.principals import checked_principals

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ALGORITHM = "EdDSA"
MAX_BYTES = 32_768
"""Of a token, which is sent as a header of each request."""
SKEW_SECONDS = 60
"""How far the clocks of an application and of the service may differ."""
MAX_ID_CHARS = 128
MAX_COLLECTIONS = 100
MAX_HIDDEN = 100
RANDOM_BYTES = 12
KEY_BYTES = 32
REQUIRED = ("jti", "iat", "exp", "collections")
OPTIONAL = ("filter", "principals", "hidden", "owner", "rate")
IGNORED = ("iss", "sub")
"""Registered claims that say nothing to this service. Any other is refused: a misspelt restriction would not
restrict."""
HEADERS = frozenset({"alg", "kid", "typ"})
_FORM = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_KEY_ID = re.compile(r"[0-9a-f]{16}")


class TokenError(ValueError):
    """A token cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a valid token says. Times are in seconds since the epoch.

    collections  names
    filter       an expression or object of conditions on documents, not checked yet; None without one
    hidden       keys of the metadata
    owner        of notes
    rate         most requests a second
    """

    jti: str
    issued_at: float
    expires_at: float
    collections: tuple[str, ...]
    filter: str | Mapping[str, Any] | None
    principals: tuple[str, ...]
    hidden: tuple[str, ...]
    owner: str | None
    rate: float | None


def has_form(text: str) -> bool:
    """Whether a text looks like a token, and no key."""
    return text.count(".", 0, MAX_BYTES) == 2 and _FORM.fullmatch(text[:MAX_BYTES]) is not None


def key_id_of(token: str) -> str:
    """Return the id of the key that a token names; nothing is verified yet. Raises TokenError."""
    if len(token) > MAX_BYTES:
        raise TokenError(f"the token has more than {MAX_BYTES:,} bytes")
    header = _object(token.split(".", 1)[0])
    if header.get("alg") != ALGORITHM:
        raise TokenError(f"the algorithm must be {ALGORITHM}")
    if not header.keys() <= HEADERS:
        raise TokenError("the header may have alg, kid and typ alone")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise TokenError("the header needs the id of a key as kid")
    return key_id


def read_claims(token: str, public_key: str, max_seconds: float) -> Claims:
    """Return what a token says, if a key has signed it. Its times are not compared with a clock.

    `max_seconds`: the longest time between issue and expiry. Raises TokenError.
    """
    import jwt

    options: dict[str, Any] = dict.fromkeys(
        (f"verify_{name}" for name in ("exp", "iat", "nbf", "aud", "iss", "sub", "jti")), False
    )
    try:
        found = jwt.decode(token, _loaded(public_key), algorithms=[ALGORITHM], options=options)  # type: ignore[arg-type]
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise TokenError(f"the signature is not valid ({type(error).__name__})") from None
    return _checked(found, max_seconds)


def _checked(found: Mapping[str, Any], max_seconds: float) -> Claims:
    if missing := [name for name in REQUIRED if name not in found]:
        raise TokenError(f"the claim {missing[0]} is missing")
    if unknown := sorted(found.keys() - {*REQUIRED, *OPTIONAL, *IGNORED}):
        raise TokenError(f"the claim {unknown[0][:40]!r} is not known")
    jti = found["jti"]
    if not isinstance(jti, str) or not 1 <= len(jti) <= MAX_ID_CHARS or not jti.isprintable():
        raise TokenError(f"jti must be 1 to {MAX_ID_CHARS} printable characters")
    issued_at, expires_at = (_number(name, found[name]) for name in ("iat", "exp"))
    if not 0 < expires_at - issued_at <= max_seconds:
        raise TokenError(f"exp must be after iat, by at most {max_seconds:,.0f} s")
    given = found.get("filter")
    if given is not None and not isinstance(given, str | dict):
        raise TokenError("filter must be an expression or an object")
    if given is not None and (not given or (isinstance(given, str) and not given.strip())):
        raise TokenError("filter has no condition; leave it out")
    owner = found.get("owner")
    if owner is not None and (not isinstance(owner, str) or not 1 <= len(owner) <= 200):
        raise TokenError("owner must be a text")
    rate = found.get("rate")
    if rate is not None and not 0.001 <= _number("rate", rate) <= 100_000:
        raise TokenError("rate must be from 0.001 to 100,000")
    collections = _texts("collections", found["collections"], MAX_COLLECTIONS)
    if not collections:
        raise TokenError("collections is empty")
    try:
        principals = checked_principals(found.get("principals", ()))
    except ValueError as error:
        raise TokenError(f"principals {error}") from None
    return Claims(
        jti,
        issued_at,
        expires_at,
        collections,
        given,
        principals,
        _texts("hidden", found.get("hidden", ()), MAX_HIDDEN),
        owner,
        None if rate is None else float(rate),
    )


def make_token(
    key_id: str,
    private_key: str | bytes,
    *,
    collections: Sequence[str],
    seconds: float,
    filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the claim
    principals: Sequence[str] = (),
    hidden: Sequence[str] = (),
    owner: str | None = None,
    rate: float | None = None,
    jti: str | None = None,
    clock: Callable[[], float] = time.time,
) -> str:
    """Sign a token that holds for some seconds.

    `key_id`: of the key that has the public key; `private_key`: Ed25519, as PEM. Raises TokenError for claims
    that the service would refuse, and ValueError for another private key.
    """
    import jwt

    now = int(clock())
    claims = {
        "jti": secrets.token_hex(RANDOM_BYTES) if jti is None else jti,
        "iat": now,
        "exp": now + math.ceil(seconds),
        "collections": list(collections),
        "principals": list(principals),
        "hidden": list(hidden),
        **{
            name: value
            for name, value in (("filter", filter), ("owner", owner), ("rate", rate))
            if value is not None
        },
    }
    _checked(claims, math.inf)
    try:
        token = jwt.encode(claims, private_key, algorithm=ALGORITHM, headers={"kid": key_id})
    except (jwt.PyJWTError, TypeError) as error:
        raise ValueError(f"the private key must be Ed25519, as PEM ({type(error).__name__})") from None
    if len(token) > MAX_BYTES:
        raise TokenError(f"the token has more than {MAX_BYTES:,} bytes; use groups")
    return token


def new_pair() -> tuple[str, str]:
    """Return a new private key as PEM, and its public key as the service stores it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode(), _encoded(private.public_key())


def checked_public_key(text: object) -> str:
    """Return an Ed25519 public key, given as PEM or as 32 bytes in base64, in base64url.

    Raises ValueError.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    message = "must be an Ed25519 public key, as PEM or as 32 bytes in base64"
    if not isinstance(text, str) or len(text) > 1_000:
        raise ValueError(message)
    try:
        if text.lstrip().startswith("-----"):
            loaded = serialization.load_pem_public_key(text.encode())
            if not isinstance(loaded, Ed25519PublicKey):
                raise ValueError(message)
            return _encoded(loaded)
        return _encoded(_loaded(text.strip().rstrip("=").replace("+", "-").replace("/", "_")))
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(message) from None


def _loaded(public_key: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    data = _decoded(public_key)
    if len(data) != KEY_BYTES:
        raise ValueError("a public key has 32 bytes")
    return Ed25519PublicKey.from_public_bytes(data)


def _encoded(key: Ed25519PublicKey) -> str:
    return base64.urlsafe_b64encode(key.public_bytes_raw()).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None


def _object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(_decoded(part))
    except (ValueError, RecursionError):
        raise TokenError("the token is not a JWT") from None
    if not isinstance(value, dict):
        raise TokenError("the token is not a JWT")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenError(f"{name} must be a number")
    return float(value)


def _texts(name: str, value: Any, most: int) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple) and len(value) <= most
    if not is_list or not all(isinstance(each, str) and 0 < len(each) <= 200 for each in value):
        raise TokenError(f"{name} must be up to {most} texts")
    return tuple(dict.fromkeys(value))
