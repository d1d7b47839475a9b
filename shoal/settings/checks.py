"""How a setting is declared, and checks of settings: each returns what is wrong with a value, or None.

Parsers are imported late: most commands run without these variables.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[Any], str | None]


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"must be at least {low:g}"


def between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else f"must be between {low:g} and {high:g}"


def percent(value: float) -> str | None:
    # Kept totals count by whole per cent (`reef_totals`).
    is_whole = math.isclose(100 * value, round(100 * value), abs_tol=1e-9)
    return None if 0 <= value <= 1 and is_whole else "must be between 0 and 1, in steps of 0.01"


def one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"must be one of {', '.join(choices)}"


def check_broker_url(value: str) -> str | None:
    schemes = ("filesystem://", "redis://", "rediss://", "amqp://", "amqps://", "memory://")
    if not value.startswith(schemes):
        return "must begin with filesystem://, redis:// or amqp://"
    from urllib.parse import urlsplit

    try:
        # Those of a cluster of RabbitMQ.
        parts = [urlsplit(url) for url in value.split(";")]
        is_readable = all("@" in part.netloc or "@" not in part.geturl() for part in parts)
        _ = [part.port for part in parts]
    except ValueError:
        is_readable = False
    if is_readable:
        return None
    return "cannot be read as a URL; write a /, ?, # or ; of the password as %2F, %3F, %23 or %3B"


def check_queue_name(value: str) -> str | None:
    return (
        None
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value)
        else "must be letters, digits, - and _ (at most 64)"
    )


def check_database_url(value: str) -> str | None:
    schemes = ("sqlite:///", "postgresql://")
    return None if value.startswith(schemes) else "must begin with sqlite:/// or postgresql://"


def check_optional_database_url(value: str) -> str | None:
    return check_database_url(value) if value else None


def _error_of(parse: Callable[[str], object], value: str) -> str | None:
    try:
        parse(value)
    except ValueError as error:
        return str(error)
    return None


def check_api_keys(value: str) -> str | None:
    from shoal.support.api_keys import parse_keys

    return _error_of(parse_keys, value)


def check_token_range(value: str) -> str | None:
    from shoal.models.files import TokenRange

    return _error_of(TokenRange.of, value)


def check_path_tags(value: str) -> str | None:
    from shoal.support.patterns import parse_path_tags

    return _error_of(parse_path_tags, value)


def check_presets(value: str) -> str | None:
    from shoal.models.search import parse_presets

    return _error_of(parse_presets, value)


_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")


def check_origins(value: str) -> str | None:
    """Origins of web pages, as browsers send them: in lower case, without a path."""
    for origin in filter(None, map(str.strip, value.split(","))):
        if not _ORIGIN.fullmatch(origin):
            return f"{origin[:80]!r} is no origin such as https://example.org"
    return None


INTERFACES = ("dify", "openai")
"""Interfaces of other programs that the API can answer."""


def interfaces_of(value: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name for name in map(str.strip, value.split(",")) if name]


def check_interfaces(value: str) -> str | None:
    is_known = set(interfaces_of(value)) <= set(INTERFACES)
    return None if is_known else f"must be a list of {', '.join(INTERFACES)}, separated by commas"


def check_hosts(value: str) -> str | None:
    from shoal.support.patterns import parse_hosts

    return _error_of(parse_hosts, value)


def check_collection_name(value: str) -> str | None:
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,62}", value)
    return None if is_name else "must be the name of a collection: a to z, 0 to 9, - and _, at most 63"


def check_owner_name(value: str) -> str | None:
    is_name = 1 <= len(value) <= 200 and value.isprintable() and not value.isspace()
    return None if is_name else "must have 1 to 200 printable characters"


def check_http_url(value: str) -> str | None:
    is_url = re.fullmatch(r"https?://[^\s/@?#]++(?:/[^\s?#]*+)?", value)
    return (
        None if is_url or not value else "must be http://HOST:PORT or https://HOST, without a user or a query"
    )


def check_encoder(value: str) -> str | None:
    if value in ("", "disabled", "minilm"):
        return None
    if value.startswith("local:"):
        return check_model_folder(value)
    if check_http_url(value) is not None:
        return (
            "must be disabled, minilm, local:FOLDER or the http(s) address of an endpoint without a user or "
            "a query"
        )
    return None


def check_reranker(value: str) -> str | None:
    if value == "encoder":
        return None
    return check_model_folder(value) if value.startswith("local:") else "must be encoder or local:FOLDER"


def check_model_folder(value: str) -> str | None:
    # A folder that is away is not refused: a disk that is not mounted must not stop the searches by words.
    return "must name a folder with a model after local:" if value == "local:" else None


def check_header_value(value: str) -> str | None:
    return None if value.isascii() and (value.isprintable() or not value) else "must be printable ASCII"


def check_file_in_folder(value: str) -> str | None:
    path = Path(value).absolute()
    if value and path.is_dir():
        return "must be a file, and is a folder"
    return None if path.parent.is_dir() else "is in a folder that does not exist"


def setting(default: Any, meaning: str, check: Check | None = None, *, secret: bool = False) -> Any:
    """Declare a setting: its default, meaning and check. The value of a `secret` is never shown."""
    metadata = {"meaning": meaning, "check": check, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)
