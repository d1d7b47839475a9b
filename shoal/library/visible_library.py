"""A library as the bearer of a search token sees it.

What reads goes through the index of what the viewer sees (`shoal.search.library_index.VisibleIndex`). This
library has nothing else: whatever was not made for it raises RestrictedError, so that nothing is shown by an
oversight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from shoal.declared.arguments import MAX_ID
from shoal.errors import NotFoundError, QueryError, RestrictedError
from shoal.filters.evaluation import FilterState, check_of_documents
from shoal.filters.parsing import ReefNames
from shoal.filters.visibility import MODALITY
from shoal.index.index import Index
from shoal.library.documents import Documents
from shoal.search.library_index import VisibleIndex
from shoal.storage.chunk_queries import modality_of
from shoal.storage.document_queries import VERSION_CHARS
from shoal.support.sha256 import sha256_of

if TYPE_CHECKING:
    from shoal.filters.tree import Node
    from shoal.filters.visibility import Viewer
    from shoal.library.library import Library
    from shoal.models.queries import Suggestions
    from shoal.models.stored import (
        ChunkDetail,
        ChunkPage,
        DocumentDetail,
        DocumentPage,
        StoredChunk,
        StoredDocument,
    )
    from shoal.search.library_index import LibraryIndex
    from shoal.storage.database import Snapshot


def refuse(name: str) -> NoReturn:
    """Raise RestrictedError."""
    raise RestrictedError(f"this is not for search tokens: {name} cannot be restricted to what they may see")


class VisibleLibrary:
    """What searches of a library need, restricted to what a viewer sees."""

    def __init__(self, whole: Library, viewer: Viewer) -> None:
        database = whole.read_database
        self.settings, self.scorer = whole.settings, whole.scorer
        self.index = VisibleIndex(whole.index, viewer, database)
        self.searcher = dataclasses.replace(whole.searcher, index=self.index)
        self.pair_scorer, self.encoder = whole.pair_scorer, whole.encoder
        self._database, self._suggester = database, whole.suggester

    def __getattr__(self, name: str) -> Any:
        refuse(name)

    @contextmanager
    def reading(self) -> Iterator[tuple[Snapshot, LibraryIndex]]:
        """A snapshot with what the viewer sees of the library in it."""
        with self.index.searching(self._database) as opened:
            yield opened

    def suggest(self, q: str, limit: int) -> Suggestions:
        """As `Engine.suggest`, without what others search for."""
        with self.reading() as (snapshot, library):
            return self._suggester.suggest(snapshot, library, q, limit)


class VisibleDocuments(Documents):
    """The documents that a viewer sees, to be read only: without their rights, and without hidden keys of
    their metadata."""

    def __init__(self, library: VisibleLibrary) -> None:
        self._library = library  # type: ignore[assignment]
        self._visible = library
        self._settings = library.settings

    def __getattr__(self, name: str) -> Any:
        # All that was not made for a viewer reads or writes `_database`.
        refuse("this operation on documents" if name == "_database" else name)

    @contextmanager
    def _reading(self, *, document_id: int | None = None, chunk_id: int | None = None) -> Iterator[Snapshot]:
        with self._visible.reading() as (snapshot, library):
            if document_id is not None and not (
                0 < document_id <= MAX_ID and library.sees_document(snapshot, document_id)
            ):
                raise NotFoundError(f"there is no document {document_id}")
            if chunk_id is not None and not (
                0 < chunk_id <= MAX_ID and library.index.place_of(chunk_id) is not None
            ):
                raise NotFoundError(f"there is no chunk {chunk_id}")
            yield snapshot

    def _is_listed(self, snapshot: Snapshot) -> Callable[[int], bool]:
        return partial(self._visible.index.of(snapshot).sees_document, snapshot)

    def _listed(self, snapshot: Snapshot, tree: Node | None) -> Sequence[int]:
        library = self._visible.index.of(snapshot)
        table = library.fields.documents.of(snapshot)
        is_listed = table.is_alive
        if tree is not None:
            check_of_documents(tree)
            state = FilterState(snapshot, Index(()), library.fields, ReefNames({}, {}, 0.0))
            is_listed = state.met_by_documents(tree)
        ids: list[int] = table.ids[is_listed].tolist()
        return ids

    def list(self, *, file_type: str | None = None, **arguments: Any) -> DocumentPage:
        if file_type is not None and self._hides_modality:
            raise QueryError("file_type", "is made of a hidden key of the metadata")
        page = super().list(file_type=file_type, **arguments)
        return dataclasses.replace(page, documents=tuple(map(self._shown, page.documents)))

    def get(self, document_id: int) -> DocumentDetail:
        detail = super().get(document_id)
        return dataclasses.replace(detail, document=self._shown(detail.document))

    def version(self, document_id: int) -> str:
        """A digest of what is shown: the number of a change says how many others there were."""
        return sha256_of(repr(self.get(document_id).document))[:VERSION_CHARS]

    def chunks(self, document_id: int, **arguments: Any) -> ChunkPage:
        page = super().chunks(document_id, **arguments)
        return dataclasses.replace(page, chunks=tuple(map(self._shown_chunk, page.chunks)))

    def chunk(self, chunk_id: int, *, context: int = 0) -> ChunkDetail:
        detail = super().chunk(chunk_id, context=context)
        document = self._shown(detail.document)
        return dataclasses.replace(detail, chunk=self._shown_chunk(detail.chunk), document=document)

    @property
    def _hides_modality(self) -> bool:
        return MODALITY in self._visible.index.viewer.hidden

    def _shown_chunk(self, chunk: StoredChunk) -> StoredChunk:
        if not self._hides_modality:
            return chunk
        return dataclasses.replace(chunk, modality=modality_of(chunk.place, chunk.section_path, {}, None))

    def _shown(self, document: StoredDocument) -> StoredDocument:
        metadata = self._visible.index.viewer.shown(document.metadata)
        return dataclasses.replace(document, metadata=metadata, allow=None, deny=())
