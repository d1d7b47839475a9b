"""Requests of sources to web servers, and their answers in XML.

Requests go only to the hosts of the addresses in SHOAL_SOURCES, and to addresses of a private network only if
SHOAL_FETCH_PRIVATE lists the host. XML is read without entities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from xml.parsers import expat

from shoal.conversion.fetching import Answer, Fetcher
from shoal.conversion.web_addresses import FetchPolicy
from shoal.errors import FetchError, ObjectGoneError, SourceError
from shoal.settings import Settings

GONE = frozenset({404, 410})
_REFUSED = frozenset({401, 403, 407})
_MAX_DEPTH = 64
_WEB_SCHEMES = frozenset({"http", "https", "webdav", "webdavs"})


class SourcePolicy(FetchPolicy):
    """The hosts and addresses that sources may ask."""

    hosts_setting = "SHOAL_SOURCES"

    def _listed(self, settings: Settings) -> tuple[str, str]:
        parts = map(urlsplit, settings.sources.split())
        hosts = {each.netloc for each in parts if each.scheme in _WEB_SCHEMES}
        return ",".join(sorted(hosts)), settings.fetch_private


def fetcher_of(settings: Settings) -> Fetcher:
    """Return what asks the servers of sources. Raises SourceError for a wrong address in SHOAL_SOURCES."""
    try:
        return Fetcher(settings, policy=SourcePolicy(settings))
    except ValueError as error:
        raise SourceError(f"SHOAL_SOURCES has a wrong address: {error}", is_temporary=False) from None


def source_error(error: FetchError) -> SourceError:
    return SourceError(str(error), is_temporary=error.is_temporary, retry_after=error.retry_after)


def refusal(answer: Answer) -> SourceError:
    """Return the error for a status that is not the expected one."""
    if answer.status in GONE:
        return ObjectGoneError("it is gone since it was listed")
    if answer.status in _REFUSED:
        return SourceError(
            f"{answer.address.host} refused access (status {answer.status}); check the secrets",
            is_temporary=False,
        )
    return source_error(answer.refusal())


class XmlReader:
    """Reads XML as a stream of elements. `path`: local names of the open elements, the root first.

    A subclass gets the beginning and end of each element, and its text. Entities are refused.
    """

    def __init__(self) -> None:
        self.path: list[str] = []

    def begin(self, attributes: Mapping[str, str]) -> None:
        """An element begins; it is the last of `path`."""

    def text(self, text: str) -> None:
        """A piece of the text of the last element of `path`."""

    def end(self) -> None:
        """The last element of `path` ends."""

    def read(self, data: bytes) -> None:
        """Raises ValueError for what is not XML; what the methods of the subclass raise."""
        parser = expat.ParserCreate(namespace_separator=" ")

        def begin(name: str, attributes: dict[str, str]) -> None:
            if len(self.path) >= _MAX_DEPTH:
                raise ValueError("its elements are too deep")
            self.path.append(name.rpartition(" ")[2])
            self.begin(attributes)

        def end(_name: str) -> None:
            self.end()
            self.path.pop()

        def refuse(*_arguments: Any) -> None:
            raise ValueError("it declares an entity")

        handlers: dict[str, Callable[..., Any]] = {
            "StartElementHandler": begin,
            "EndElementHandler": end,
            "CharacterDataHandler": self.text,
            "EntityDeclHandler": refuse,
        }
        for name, handler in handlers.items():
            setattr(parser, name, handler)
        try:
            parser.Parse(data, True)
        except (expat.ExpatError, LookupError) as error:
            raise ValueError(str(error)) from None
