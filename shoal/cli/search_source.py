"""What `shoal search` asks: the database of this run, or a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.cli.session import Session

if TYPE_CHECKING:
    from shoal.models.batches import BatchResponse
    from shoal.models.explanations import Explanation
    from shoal.models.notes import UnitResponse
    from shoal.models.search import SearchResponse


@dataclass(frozen=True)
class SearchSource:
    """The methods of an engine, or those of a client with the same arguments."""

    search: Callable[..., SearchResponse]
    search_units: Callable[..., UnitResponse]
    search_many: Callable[..., BatchResponse]
    explain: Callable[..., Explanation]
    count_documents: Callable[[], int]


@contextmanager
def open_source(session: Session, server: str | None, key: str | None) -> Iterator[SearchSource]:
    """Open the database of this run, or a client of the service. Raises ClientError, NotFoundError."""
    if server is None:
        with session.engine() as engine:
            yield SearchSource(
                engine.search,
                engine.search_units,
                engine.search_many,
                engine.explain,
                lambda: int(engine.status().n_documents),
            )
        return
    from shoal.cli.jobs import connect

    with connect(session, server, key, command_name="shoal search") as client:
        yield SearchSource(
            client.search,
            client.search_units,
            client.search_many,
            client.explain,
            lambda: client.status().n_documents,
        )
