"""Operations of agents: retrieve passages, remember and recall what was learned for a user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from shoal.client.flows import Flow, operation
from shoal.client.requests import Requester, new_key, without_none
from shoal.models.notes import NoteOutcomes, Recall

if TYPE_CHECKING:
    from shoal.models.retrieval import Retrieval


class RetrievalOperations(Requester):
    """Operations of agents. Invalid arguments raise InvalidError."""

    @operation
    def remember(
        self, user_id: str, items: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Flow[NoteOutcomes]:
        """Store what an agent learned for a user: objects with `content`, `topic` and `confidence`.

        One result for each item, in order; a refused item says why. A call with the same key and items has
        the same outcome, and stores and counts nothing.
        """
        body = {"items": [dict(item) for item in items]}
        key = idempotency_key or new_key()
        return (yield from self._post(NoteOutcomes, _user_path(user_id, "remember"), body, key=key))

    @operation
    def recall(
        self, user_id: str, query: str, *, top_k: int | None = None, threshold: float | None = None
    ) -> Flow[Recall]:
        """What is known for a user about a question, best first."""
        body = without_none(query=query, top_k=top_k, threshold=threshold)
        return (yield from self._post(Recall, _user_path(user_id, "recall"), body))

    @operation
    def retrieve(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
    ) -> Flow[Retrieval]:
        """Passages of the library as plain content with metadata and a similarity."""
        from shoal.models.retrieval import Retrieval

        body = without_none(query=query, top_k=top_k, threshold=threshold, filters=filters, filter=filter)
        return (yield from self._post(Retrieval, "/retrieve", body))


def _user_path(user_id: str, action: str) -> str:
    # Dots, too: `..` alone would be a step to the folder above.
    return f"/users/{quote(user_id, safe='').replace('.', '%2E')}/{action}"
