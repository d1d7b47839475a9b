"""A document store and a retriever for Haystack.

from shoal.integrations.haystack import ShoalDocumentStore, ShoalRetriever

store = ShoalDocumentStore("http://127.0.0.1:8000")
retriever = ShoalRetriever(store, {"top_k": 5, "context": 1})
documents = retriever.run("how bees find food")["documents"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError as HaystackFilterError
from haystack.utils import Secret

from shoal.client import Client
from shoal.declared.arguments import MAX_PAGE
from shoal.errors import DuplicateContentError, FilterError
from shoal.filters.foreign import of_haystack
from shoal.filters.parsing import make_filter
from shoal.filters.tree import both, text_of
from shoal.integrations.passages import Passage, find_passages, find_passages_async
from shoal.models.stored import StoredDocument

if TYPE_CHECKING:
    from shoal.engine import Engine

CITATION = "shoal"
"""The key of the meta of a passage that has its citation, its scores and the reason for it."""
NO_PATH = "document-"
"""What the id of a document without a source path begins with; its number follows."""


class _OfEngine:
    """What a store asks of a library in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def count(self) -> int:
        return self._engine.size()[0]

    def listed(self, **arguments: str) -> Iterable[StoredDocument]:
        return self._engine.documents.list(limit=MAX_PAGE, **arguments).documents  # type: ignore[arg-type]

    def content(self, document_id: int) -> str:
        return self._engine.documents.content(document_id)

    def add(self, **fields: Any) -> int | None:
        """Store a document; return the id of a stored one with its text, which it then is not."""
        return self._engine.ingest(**fields).duplicate

    def replace(self, document_id: int, **fields: Any) -> None:
        self._engine.documents.replace(document_id, **fields)

    def delete(self, document_id: int) -> None:
        self._engine.documents.delete(document_id)


class _OfClient:
    """What a store asks of a service."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def count(self) -> int:
        return self._client.documents(limit=1).total

    def listed(self, **arguments: str) -> Iterable[StoredDocument]:
        return self._client.each_document(**arguments)

    def content(self, document_id: int) -> str:
        return self._client.content(document_id)

    def add(self, **fields: Any) -> int | None:
        stored = self._client.add_document(**fields)
        return stored.id if stored.duplicate else None

    def replace(self, document_id: int, **fields: Any) -> None:
        self._client.replace_document(document_id, **fields)

    def delete(self, document_id: int) -> None:
        self._client.delete_document(document_id)


class ShoalDocumentStore:
    """The documents of a Shoal library as those of Haystack, whose id is the source path.

    A library keeps a text once, and makes vectors by itself: a second document with the same text, one
    without text, and one with an embedding raise DocumentStoreError.
    """

    def __init__(
        self, library: Engine | Client | str, *, key: Secret | None = None, collection: str = "main"
    ) -> None:
        """`library`: a `shoal.Engine`, a `shoal.client.Client`, or the address of a service, such as
        `http://127.0.0.1:8000`, which takes a `key` and the name of a `collection`. Only a store with an
        address can be a part of a serialized pipeline."""
        self._address = library if isinstance(library, str) else None
        self._key, self._collection = key, collection
        if isinstance(library, str):
            secret = None if key is None else key.resolve_value()
            library = Client(library, key=secret, collection=collection)
        self.searcher: Engine | Client = library
        self._of: _OfEngine | _OfClient = (
            _OfClient(library) if isinstance(library, Client) else _OfEngine(library)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return how the store is made. Raises TypeError for one that was made of an object."""
        if self._address is None:
            raise TypeError("an engine or a client cannot be serialized; make the store of an address")
        key = None if self._key is None else self._key.to_dict()
        made = {"library": self._address, "key": key, "collection": self._collection}
        return dict(default_to_dict(self, **made))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ShoalDocumentStore:
        """Return a store as it was made."""
        made = dict(data["init_parameters"])
        if isinstance(made.get("key"), dict):
            made["key"] = Secret.from_dict(made["key"])
        return cls(**made)

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self._of.count()

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that meet a filter of Haystack, with their whole text. Raises its
        FilterError."""
        found = self._of.listed(filter=expression_of(filters)) if filters else self._of.listed()
        return [
            Document(id=_id_of(each), content=self._of.content(each.id), meta=dict(each.metadata))
            for each in found
        ]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Store documents; return how many were written.

        Of one whose id is stored, the policy says: SKIP it, OVERWRITE it, or FAIL, which is the default, and
        then none is written. Raises DuplicateDocumentError, and DocumentStoreError for what a library does
        not keep; what was written before a text that is stored already stays.
        """
        for document in documents:
            _check(document)
        if policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
            seen: set[str] = set()
            for document in documents:
                if document.id in seen or self._at(document.id):
                    raise DuplicateDocumentError(f"the document {document.id!r} exists already")
                seen.add(document.id)
        n_written = 0
        for document in documents:
            found = self._at(document.id)
            if not found or policy is DuplicatePolicy.OVERWRITE:
                self._write(document, found)
                n_written += 1
        return n_written

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by their ids; those that are not stored are passed over."""
        for document_id in document_ids:
            for each in self._at(document_id):
                self._of.delete(each.id)

    def _write(self, document: Document, found: Sequence[StoredDocument]) -> None:
        fields: dict[str, Any] = {"content": document.content, "metadata": document.meta}
        try:
            if found:
                self._of.replace(found[0].id, **fields)
                return
            other = self._of.add(**fields, source_path=document.id)
        except DuplicateContentError as error:
            raise DocumentStoreError(f"the document {document.id!r}: {error}") from error
        if other is not None:
            raise DocumentStoreError(
                f"the text of the document {document.id!r} is stored already, as document {other}; a library "
                "keeps it once"
            )

    def _at(self, document_id: str) -> list[StoredDocument]:
        """Return the stored documents with an id of Haystack."""
        found = list(self._of.listed(source_path=document_id))
        number = document_id.removeprefix(NO_PATH)
        if found or number == document_id or not number.isdecimal():
            return found
        return [each for each in self._of.listed(filter=f"id = {number}") if each.source_path is None]


@component
class ShoalRetriever:
    """Returns passages of a Shoal library as documents of Haystack, best first.

    The `score` of a passage is its relevance, which can be compared between queries. Its meta has the
    metadata of its document and, under `shoal`, that of `shoal.integrations.passages.Passage`, with `why`.
    """

    def __init__(
        self,
        document_store: ShoalDocumentStore,
        arguments: dict[str, Any] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        merge: bool = False,
    ) -> None:
        """`arguments` are those of the searcher's `search`; `filters`, in Haystack's syntax, hold besides its
        `filter`. With `merge`, adjoining passages become one document."""
        self.document_store = document_store
        self.arguments, self.filters = dict(arguments or {}), filters
        self.top_k, self.merge = top_k, merge

    def to_dict(self) -> dict[str, Any]:
        """Return how the retriever is made."""
        made = {
            "arguments": self.arguments,
            "filters": self.filters,
            "top_k": self.top_k,
            "merge": self.merge,
        }
        return dict(default_to_dict(self, document_store=self.document_store.to_dict(), **made))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ShoalRetriever:
        """Return a retriever as it was made."""
        made = data["init_parameters"]
        if isinstance(made["document_store"], dict):
            made["document_store"] = ShoalDocumentStore.from_dict(made["document_store"])
        retriever: ShoalRetriever = default_from_dict(cls, data)
        return retriever

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the passages that match a query. `filters` and `top_k` take the place of the own ones."""
        arguments = self._arguments(filters, top_k)
        found = find_passages(self.document_store.searcher, query, arguments, merge=self.merge)
        return {"documents": list(map(_document, found))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Like `run`, without blocking the event loop."""
        arguments = self._arguments(filters, top_k)
        found = await find_passages_async(self.document_store.searcher, query, arguments, merge=self.merge)
        return {"documents": list(map(_document, found))}

    def _arguments(self, filters: Mapping[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        arguments = {"top_k": self.top_k if top_k is None else top_k, **self.arguments}
        if top_k is not None:
            arguments["top_k"] = top_k
        if given := filters or self.filters:
            node = both(make_filter(arguments.get("filter")), make_filter(expression_of(given)))
            assert node is not None, "it has the conditions of Haystack"
            arguments["filter"] = text_of(node)
        return arguments


def expression_of(filters: Mapping[str, Any]) -> str:
    """Return a filter of Haystack as an expression. Raises its FilterError."""
    try:
        node = make_filter(of_haystack(filters))
    except FilterError as error:
        raise HaystackFilterError(str(error)) from error
    assert node is not None, "a filter of Haystack has a condition"
    return text_of(node)


def _document(passage: Passage) -> Document:
    metadata = dict(passage.metadata)
    meta = {**metadata.pop("document_metadata"), CITATION: metadata}
    return Document(id=passage.id, content=passage.text, meta=meta, score=passage.relevance)


def _id_of(document: StoredDocument) -> str:
    return f"{NO_PATH}{document.id}" if document.source_path is None else document.source_path


def _check(document: Document) -> None:
    """Raise DocumentStoreError for a document with what a library does not keep."""
    if not isinstance(document, Document):
        raise ValueError("documents must be documents of Haystack")
    if document.content is None or document.blob is not None:
        raise DocumentStoreError(f"the document {document.id!r} must have text, and text alone")
    if document.embedding is not None or document.sparse_embedding is not None:
        raise DocumentStoreError(
            f"the document {document.id!r} has an embedding, which is not kept; leave out the embedder"
        )
