"""The commands `shoal key …`: keys of the catalog, on the machine of the service."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Limit, Offset, Session, add_group
from shoal.declared.operations.service import KeyOperations
from shoal.errors import InvalidFieldError, ShoalError
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage, PublicKey, SignedToken
from shoal.support import search_tokens

if TYPE_CHECKING:
    from shoal.access.key_store import KeyStore

LISTED = of_operation(KeyOperations.keys)
KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, as `shoal key list` shows it.")]

_DURATION = re.compile(r"(\d{1,9})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""Seconds of each unit of a duration."""


def register(app: typer.Typer) -> None:
    """Add the group of this module."""
    add_group(
        app,
        "key",
        "Keys that clients send to the service (docs/keys.md).",
        ("create", create, _say_created),
        ("list", list_keys, _say_page),
        ("revoke", revoke, "key {id} ({name}) is revoked"),
        ("rotate", rotate, _say_created),
        ("pair", pair, "{public_key}"),
        ("public-key", set_public_key, _say_key),
        ("token", make_token, "{token}"),
        ("revoke-tokens", revoke_tokens, _say_key),
        declared={"list": options_of(LISTED)},
    )


def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    scopes: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="COLLECTION:RIGHT",
            help="A right (read, write, admin) in a collection, or in all with *; may be repeated.",
        ),
    ],
    owners: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="NAME", help="Only notes of this owner; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="WHEN", help="After 90d (s, m, h, d, w), or at 2030-01-31."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", help="Most requests per second, such as 20; 0.001 or more."),
    ] = None,
) -> CreatedKey:
    """Create a key and show it this once.

    Only its SHA-256 is stored. From its first key on, a service refuses requests without one. A running
    service notices within SHOAL_KEY_CACHE_SECONDS.

    \b
        shoal key create operator --scope '*:admin'
        shoal key create website --scope main:read --expires 90d --rate 20
        shoal key create ann --scope main:write --owner ann
    """
    now = time.time()
    with _store(session) as store:
        return store.create(
            name,
            [_scope(scope) for scope in scopes],
            owners=owners or None,
            expires_at=None if expires is None else _moment(expires, now),
            requests_per_second=rate,
        )


def list_keys(session: Session, limit: Limit = 50, offset: Offset = 0, **options: Any) -> KeyPage:
    """List keys, newest first. The keys themselves are stored nowhere.

    The fingerprint is the name of a key in logs and metrics.

    \b
        shoal key list --active
    """
    with _store(session) as store:
        return store.page(limit, offset, **given(LISTED, options))


def _say_page(session: Session, page: KeyPage) -> None:
    for key in page.keys:
        session.say(_line(key))
    if not page.total:
        session.say("there are no keys; `shoal key create` makes one")
    elif len(page.keys) < page.total:
        session.say(f"{len(page.keys):,} of {page.total:,} keys; --limit and --offset show others")


def revoke(session: Session, key_id: KeyId) -> KeyDetails:
    """Revoke a key for good.

    A running service refuses it within SHOAL_KEY_CACHE_SECONDS.

    \b
        shoal key revoke 0123456789abcdef
    """
    with _store(session) as store:
        return store.revoke(key_id)


def rotate(
    session: Session,
    key_id: KeyId,
    grace: Annotated[
        str, typer.Option("--grace", metavar="TIME", help="How long the old key stays valid, such as 1d.")
    ] = "0s",
) -> CreatedKey:
    """Replace a key by another with the same name, rights and limits, and show it this once.

    \b
        shoal key rotate 0123456789abcdef --grace 1d
    """
    with _store(session) as store:
        return store.rotate(key_id, grace_seconds=_seconds(grace, "--grace"))


OF_FIELD = {
    "name": "NAME",
    "scopes": "--scope",
    "owners": "--owner",
    "expires_at": "--expires",
    "requests_per_second": "--rate",
    "grace_seconds": "--grace",
    "public_key": "PUBLIC_KEY",
    "jti": "--jti",
    "before": "--before",
}
"""What gives each field of a key."""


def pair(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes; a new file.")],
) -> PublicKey:
    """Make a pair of Ed25519 keys that search tokens are signed and verified with.

    The private key goes to a file that only its owner can read. The public key is printed.

    \b
        shoal key pair tokens.pem
    """
    private_key, public_key = search_tokens.new_pair()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(private_key)
    except OSError as error:
        raise ShoalError(f"cannot write {file}: {error.strerror}") from None
    return PublicKey(public_key)


def set_public_key(
    session: Session,
    key_id: KeyId,
    public_key: Annotated[
        str,
        typer.Argument(metavar="[PUBLIC_KEY]", help="In base64, or a file in PEM; leave it out for none."),
    ] = "",
) -> KeyDetails:
    """Set the public key that search tokens of a key are signed with.

    \b
        shoal key public-key 5f0e8a1b2c3d4e5f 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo
    """
    text = public_key
    if text and Path(text).is_file():
        text = Path(text).read_text(encoding="utf-8", errors="replace")[:1_000]
    with _store(session) as store:
        return store.set_public_key(key_id, text)


def make_token(
    session: Session,
    key_id: KeyId,
    private_key: Annotated[
        Path, typer.Option("--private-key", metavar="FILE", help="The private key, Ed25519 in PEM.")
    ],
    collections: Annotated[
        list[str], typer.Option("--collection", metavar="NAME", help="May be repeated.")
    ] = ["main"],  # noqa: B006 - Typer copies it
    principals: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="user:NAME|group:NAME", help="May be repeated."),
    ] = None,
    filter: Annotated[  # noqa: A002 - the name of the option
        str | None, typer.Option("--filter", metavar="EXPRESSION", help="Over fields of documents.")
    ] = None,
    hidden: Annotated[
        list[str] | None,
        typer.Option("--hide", metavar="KEY", help="A key of the metadata; may be repeated."),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Of notes.")] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Most requests per second.")
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="After how long, such as 15m.")
    ] = "15m",
) -> SignedToken:
    """Make a search token (docs/search-tokens.md). The service is not asked.

    \b
        shoal key token 5f0e8a1b2c3d4e5f --private-key tokens.pem --principal user:ann --principal group:hr
    """
    try:
        token = search_tokens.make_token(
            key_id,
            private_key.read_bytes(),
            collections=collections,
            seconds=_seconds(expires, "--expires"),
            filter=filter,
            principals=principals or (),
            hidden=hidden or (),
            owner=owner,
            rate=rate,
        )
    except OSError as error:
        raise ShoalError(f"cannot read {private_key}: {error.strerror}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return SignedToken(token)


def revoke_tokens(
    session: Session,
    key_id: KeyId,
    jti: Annotated[
        str | None, typer.Option("--jti", metavar="ID", help="Only the token with this id.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="WHEN", help="Those issued before 2030-01-31; by default now."),
    ] = None,
) -> KeyDetails:
    """Revoke search tokens of a key.

    \b
        shoal key revoke-tokens 5f0e8a1b2c3d4e5f
    """
    with _store(session) as store:
        moment = None if before is None else _moment(before, time.time())
        return store.revoke_tokens(key_id, jti=jti, before=moment)


def _say_key(session: Session, key: KeyDetails) -> None:
    session.say(_line(key))


@contextmanager
def _store(session: Session) -> Iterator[KeyStore]:
    from shoal.access.key_store import KeyStore
    from shoal.collections.catalog import Catalog

    catalog = Catalog(session.settings())
    try:
        yield KeyStore(catalog)
    except InvalidFieldError as error:
        raise typer.BadParameter(error.message, param_hint=OF_FIELD[error.field]) from None
    finally:
        catalog.close()


def _say_created(session: Session, created: CreatedKey) -> None:
    session.say(f"key: {created.key}")
    session.say("It is shown this once. Clients send it as `Authorization: Bearer KEY`.")
    session.say(_line(created.details))


def _line(key: KeyDetails) -> str:
    scopes = ", ".join(f"{scope.collection or '(deleted)'}:{scope.right}" for scope in key.scopes)
    parts = [f"{key.id}  {key.name}  {key.state}  {scopes}", f"fingerprint {key.fingerprint}"]
    if key.owners is not None:
        parts.append(f"owners {', '.join(key.owners)}")
    if key.requests_per_second is not None:
        parts.append(f"{key.requests_per_second:g} requests a second")
    if key.expires_at is not None:
        parts.append(f"expires {key.expires_at}")
    if key.public_key is not None:
        parts.append(f"signs tokens with {key.public_key}")
    if key.tokens_before is not None:
        parts.append(f"tokens before {key.tokens_before} are revoked")
    parts.append("never used" if key.last_used_at is None else f"last used {key.last_used_at}")
    return "; ".join(parts)


def _scope(text: str) -> tuple[str, str]:
    """Split `books:read`. Raises typer.BadParameter."""
    collection, colon, right = text.rpartition(":")
    if not colon or not collection or not right:
        raise typer.BadParameter(
            f"{text!r} is no scope; write COLLECTION:RIGHT, such as main:read or '*:admin'",
            param_hint="--scope",
        )
    return collection, right


def _moment(text: str, now: float) -> float:
    """Return a time in seconds since the epoch. Raises typer.BadParameter."""
    if _DURATION.fullmatch(text):
        return now + _seconds(text, "--expires")
    try:
        moment = dt.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither a time such as 90d or 12h nor a date such as 2030-01-31 (UTC)",
            param_hint="--expires",
        ) from None


def _seconds(text: str, option: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is no time; write a number with s, m, h, d or w, such as 90d", param_hint=option
        )
    return float(match[1]) * _UNITS[match[2]]
