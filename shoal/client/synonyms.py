"""Operations on the synonyms and acronyms of the library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.client.flows import Flow, Repeat, Request, Stream, listing, operation
from shoal.client.paths import API
from shoal.client.requests import Requester, json_object, pages, parse, without_none
from shoal.models.synonyms import (
    Acronym,
    AcronymPage,
    AcronymScan,
    Synonym,
    SynonymImport,
    SynonymPage,
)

SYNONYMS, ACRONYMS = "/synonyms", "/acronyms"


class SynonymOperations(Requester):
    """Operations on synonyms and acronyms.

    An invalid word raises InvalidError, an entry that contradicts another ConflictError, an unknown id
    NotFoundError.
    """

    @operation
    def synonyms(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> Flow[SynonymPage]:
        """A page of the synonyms, by id; with `q`, those with a word that contains it."""
        return (yield from self._page(SynonymPage, SYNONYMS, limit, offset, q=q))

    @listing
    def each_synonym(self, *, q: str | None = None) -> Stream[Synonym]:
        """All synonyms, read page by page."""
        yield from pages(
            lambda limit, offset: self._page(SynonymPage, SYNONYMS, limit, offset, q=q),
            lambda page: page.synonyms,
        )

    @operation
    def synonym(self, synonym_id: int) -> Flow[Synonym]:
        """One entry."""
        return (yield from self._get(Synonym, f"{SYNONYMS}/{int(synonym_id)}"))

    @operation
    def add_synonym(self, synonyms: Sequence[str], *, root: str | None = None) -> Flow[Synonym]:
        """Add an entry: each of the `synonyms` also finds the others, or with a `root`, only the root finds
        them."""
        body = without_none(synonyms=list(synonyms), root=root)
        return (yield from self._post(Synonym, SYNONYMS, body, Repeat.unsent))

    @operation
    def replace_synonym(
        self, synonym_id: int, synonyms: Sequence[str], *, root: str | None = None
    ) -> Flow[Synonym]:
        """Replace an entry."""
        body = without_none(synonyms=list(synonyms), root=root)
        request = Request("PUT", f"{API}{SYNONYMS}/{int(synonym_id)}", json=body)
        return parse(Synonym, (yield from self._send(request)))

    @operation
    def delete_synonym(self, synonym_id: int) -> Flow[bool]:
        """Delete an entry; false if there is none."""
        path = f"{API}{SYNONYMS}/{int(synonym_id)}"
        response = yield from self._send(Request("DELETE", path, passed=frozenset({404})))
        return response.status_code != 404

    @operation
    def export_synonyms(self) -> Flow[list[dict[str, Any]]]:
        """All entries, as `import_synonyms` takes them."""
        response = yield from self._send(Request("GET", f"{API}{SYNONYMS}/export"))
        return list(json_object(response).get("synonyms", ()))

    @operation
    def import_synonyms(
        self, synonyms: Iterable[Mapping[str, Any]], *, replace: bool = False
    ) -> Flow[SynonymImport]:
        """Add many entries at once; with `replace`, after deleting all former ones."""
        body = {"synonyms": [dict(entry) for entry in synonyms], "replace": replace}
        return (yield from self._post(SynonymImport, f"{SYNONYMS}/import", body))

    @operation
    def acronyms(
        self,
        *,
        status: str | None = None,
        acronym: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Flow[AcronymPage]:
        """A page of the proposed acronyms, or of those with another status, those in most documents first."""
        return (yield from self._page(AcronymPage, ACRONYMS, limit, offset, status=status, acronym=acronym))

    @operation
    def acronym(self, acronym_id: int) -> Flow[Acronym]:
        """One acronym."""
        return (yield from self._get(Acronym, f"{ACRONYMS}/{int(acronym_id)}"))

    @operation
    def scan_acronyms(self, *, max_seconds: int | None = None) -> Flow[AcronymScan]:
        """Look for acronyms in documents that are new or changed since the last scan, for a while."""
        body = without_none(max_seconds=max_seconds)
        return (yield from self._post(AcronymScan, f"{ACRONYMS}/scan", body))

    @operation
    def confirm_acronym(self, acronym_id: int) -> Flow[Acronym]:
        """Make an acronym and its expansion synonyms."""
        path = f"{ACRONYMS}/{int(acronym_id)}/confirm"
        return (yield from self._post(Acronym, path, {}, Repeat.unsent))

    @operation
    def reject_acronym(self, acronym_id: int) -> Flow[Acronym]:
        """Reject an acronym: it is not proposed again, and its synonym is deleted."""
        return (yield from self._post(Acronym, f"{ACRONYMS}/{int(acronym_id)}/reject", {}))
