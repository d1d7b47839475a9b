"""The commands `shoal key …`: keys of the catalog, on the machine of the service."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Limit, Offset, Session, add_group
from shoal.declared.operations.service import KeyOperations
from shoal.errors import InvalidFieldError
from shoal.models.keys import CreatedKey, KeyDetails, KeyPage

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
}
"""What gives each field of a key."""


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
