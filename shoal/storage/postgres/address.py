"""The URL of a library on PostgreSQL: libpq's, with a parameter of ours that names the schema.

Nothing else of the URL is touched, so libpq sees several hosts, `target_session_attrs` and every escape as
they were written.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from shoal.errors import DatabaseUnavailableError

SCHEME = "postgresql"
DEFAULT_SCHEMA = "shoal"
MAX_SCHEMA_CHARS = 57
"""The channel of notifications is called `shoal_` and the schema, and PostgreSQL allows 63 characters."""
SCHEMA_NAME = re.compile(rf"[a-z_][a-z0-9_]{{0,{MAX_SCHEMA_CHARS - 1}}}")
SECRETS = ("password", "sslpassword")


class Address(NamedTuple):
    """Where a library is.

    url       for libpq, without our parameter
    schema    of the library's tables
    location  the URL as it was given, without its password
    """

    url: str
    schema: str
    location: str

    @property
    def name(self) -> str:
        """What messages call the library: its schema and its database."""
        return f"schema {self.schema} of database {self._database() or '(default)'}"

    def _database(self) -> str:
        location, parameters = _split(self.url)
        named = [value for name, value in map(_pair, parameters) if name == "dbname"]
        return named[-1] if named else unquote(location.partition("://")[2].partition("/")[2])


def parse_address(url: str) -> Address:
    """Take a URL apart: `postgresql://USER:PASSWORD@HOST:PORT,.../DATABASE?schema=NAME&...`.

    Raises DatabaseUnavailableError, which says what is wrong and shows no password.
    """
    location, parameters = _split(url)
    if not location.startswith(f"{SCHEME}://") or any("=" not in each for each in parameters):
        raise DatabaseUnavailableError(
            "the URL of the database must be postgresql://USER@HOST:PORT/DATABASE?schema=NAME"
        )
    authority, slash, database = location.partition("://")[2].partition("/")
    user, at, hosts = authority.rpartition("@")
    if "@" in f"{user}{database}" or ("@" in url and not at):
        # Otherwise a part of the password would be taken for the host, and shown.
        raise DatabaseUnavailableError(
            "the URL of the database must have one @, before the host: write others, and any / or ? of the "
            "password, as %40, %2F and %3F"
        )
    pairs = [_pair(each) for each in parameters]
    schemas = [value for name, value in pairs if name == "schema"] or [DEFAULT_SCHEMA]
    if len(schemas) > 1 or not SCHEMA_NAME.fullmatch(schemas[0]) or schemas[0].startswith("pg_"):
        raise DatabaseUnavailableError(
            f"the schema in the URL of the database must be one name of 1 to {MAX_SCHEMA_CHARS} lower-case "
            "letters, digits and _, which begins with no digit and not with pg_"
        )
    kept = zip(parameters, pairs, strict=True)
    shown = [each for each, (name, _) in kept if name not in SECRETS]
    return Address(
        url=_joined(location, _without_schema(parameters)),
        schema=schemas[0],
        location=_joined(f"{SCHEME}://{user.partition(':')[0]}{at}{hosts}{slash}{database}", shown),
    )


def with_schema(url: str, schema: str) -> str:
    """Return the URL of another schema of the same database."""
    location, parameters = _split(url)
    return _joined(location, [*_without_schema(parameters), f"schema={schema}"])


def _split(url: str) -> tuple[str, list[str]]:
    """What is before the parameters of a URL, and its parameters, all as they are written."""
    location, _, query = url.partition("?")
    return location, query.split("&") if query else []


def _joined(location: str, parameters: list[str]) -> str:
    return f"{location}?{'&'.join(parameters)}" if parameters else location


def _pair(parameter: str) -> tuple[str, str]:
    """Name and value of a parameter. libpq knows escapes, but no `+` for a space."""
    name, _, value = parameter.partition("=")
    return unquote(name), unquote(value)


def _without_schema(parameters: list[str]) -> list[str]:
    return [each for each in parameters if _pair(each)[0] != "schema"]
