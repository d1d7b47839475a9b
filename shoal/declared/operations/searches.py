# mypy: disable-error-code="empty-body"
"""Operations that search, explain, verify and compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Required, TypedDict, Unpack

from shoal.declared.arguments import (
    MAX_ID,
    OBJECT,
    Argument,
    Choice,
    Flag,
    Many,
    Members,
    Number,
    Text,
    Whole,
)
from shoal.declared.filters import SearchFilters
from shoal.declared.operations.operation import Sent, get, post
from shoal.declared.search import SEARCH, RankingArguments, SearchArguments
from shoal.models import notes as of_similarity
from shoal.models import queries as of_suggestions
from shoal.models import search as of_retrieval
from shoal.models import verdicts as of_verdicts
from shoal.models.documents import DocFormat
from shoal.models.explanations import Explanation
from shoal.models.keys import Needed
from shoal.models.notes import Similarity
from shoal.models.queries import Suggestions
from shoal.models.search import (
    MAX_NAMES,
    MAX_RESULTS,
    MAX_SEARCHES,
    UNITS,
    BatchResponse,
    LibraryFacets,
    Retrieval,
    SearchResponse,
)
from shoal.models.verdicts import Verification

_LIMIT = f"1 to {of_similarity.MAX_CHARS:,} characters"


class Reference(TypedDict, total=False):
    """A passage that may be cited: a chunk, a document, or characters of a document."""

    label: Annotated[
        int | None,
        Argument(
            kind=Whole(0, of_verdicts.MAX_LABEL),
            may_be_null=True,
            about="the number by which it is cited; default: its position, from 1",
        ),
    ]
    chunk_id: Annotated[
        int | None,
        Argument(kind=Whole(1, MAX_ID), may_be_null=True, about="a chunk, unless `document_id` is given"),
    ]
    document_id: Annotated[
        int | None,
        Argument(kind=Whole(1, MAX_ID), may_be_null=True, about="a document, unless `chunk_id` is given"),
    ]
    start_char: Annotated[
        int | None,
        Argument(
            kind=Whole(0, MAX_ID),
            may_be_null=True,
            about="with `document_id`: where the passage begins, in code points",
        ),
    ]
    end_char: Annotated[
        int | None,
        Argument(
            kind=Whole(0, MAX_ID), may_be_null=True, about="with `start_char`: where it ends, exclusive"
        ),
    ]


class GivenStatement(TypedDict, total=False):
    """A claim, and what it cites."""

    text: Required[
        Annotated[
            str,
            Argument(
                kind=Text(most=of_verdicts.MAX_STATEMENT_CHARS, least=1),
                about=f"a claim, up to {of_verdicts.MAX_STATEMENT_CHARS:,} characters",
            ),
        ]
    ]
    references: Annotated[
        Sequence[str | int],
        Argument(
            kind=Many(Text(or_whole=True), of_verdicts.MAX_CITATIONS),
            about="what it cites: `1` for a label, `chunk 12`, `document 3` or `document 3:1-90`",
        ),
    ]


def _as_statements(statements: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"text": each} if isinstance(each, str) else dict(each) for each in statements]


Query = Annotated[str, Argument(kind=Text(), about="the query, up to 4,096 characters")]
Facets = Annotated[Sequence[str | Mapping[str, Any]], SEARCH["facets"]]
FacetLimit = Annotated[int | None, SEARCH["facet_limit"]]
OfFilters = dataclasses.replace(SEARCH["filters"], about="filters that every passage passes that is counted")
Filters = Annotated[SearchFilters | Mapping[str, Any] | None, OfFilters]
Filter = Annotated[str | Mapping[str, Any] | None, SEARCH["filter"]]
Names = Many(Text(), MAX_NAMES)


class Selection(TypedDict, total=False):
    """Which fields the results of a response have."""

    include: Annotated[
        Sequence[str] | None,
        Argument(
            kind=Names,
            about="names of the fields that a result has; by default all",
            address="; comma-separated",
        ),
    ]
    exclude: Annotated[
        Sequence[str] | None,
        Argument(kind=Names, about="names of fields that a result lacks", address="; comma-separated"),
    ]


class Units(Selection, total=False):
    """What a search of the API is for, besides what it searches for."""

    units: Annotated[
        Sequence[str],
        Argument(
            kind=Many(Choice(UNITS)),
            default=UNITS[:1],
            about="what to search: passages (`chunk`), notes (`note`), or both, in one order. Of the "
            "filters, notes meet `tags` alone",
            address="; comma-separated",
        ),
    ]
    owner: Annotated[
        str,
        Argument(
            kind=Text(),
            about="whose notes to search, with the unit `note`; default `default`",
            is_anywhere=True,
        ),
    ]


class SearchRequest(SearchArguments, Units, total=False):
    """A search of the API besides its query."""


class ExplainRequest(SearchArguments, total=False):
    """A search that is explained, and perhaps a document or chunk."""

    document_id: Annotated[
        int | None, Argument(kind=Whole(1, MAX_ID), about="document whose best chunk is explained")
    ]
    chunk_id: Annotated[int | None, Argument(kind=Whole(1, MAX_ID), about="chunk to explain")]


class BatchRequest(RankingArguments, Selection, total=False):
    """What a batch has besides its searches."""


class SearchOperations:
    """Operations on passages and texts. Invalid arguments raise InvalidError, whose `errors` name them."""

    @get("/suggest", Needed.read, for_tokens=True, fails=(503,), command="suggest")
    def suggest(
        self,
        q: Annotated[
            str,
            Argument(
                kind=Text(most=of_suggestions.MAX_QUERY_CHARS),
                about=f"the beginning of a query, up to {of_suggestions.MAX_QUERY_CHARS} characters",
            ),
        ],
        *,
        limit: Annotated[
            int | None,
            Argument(
                kind=Whole(1, of_suggestions.MAX_SUGGESTIONS),
                default=of_suggestions.SUGGESTIONS,
                about=f"most suggestions to return, 1 to {of_suggestions.MAX_SUGGESTIONS}",
            ),
        ] = None,
    ) -> Suggestions:
        """Suggest queries while one is typed"""

    @post("/similarity", Needed.read, fails=(503,), command="similarity")
    def similarity(
        self,
        a: Annotated[str, Argument(kind=Text(), about=f"a text of {_LIMIT}")],
        b: Annotated[str, Argument(kind=Text(), about=f"the other text, of {_LIMIT}")],
    ) -> Similarity:
        """Compare two short texts"""

    @post("/verify", Needed.read, fails=(503,), command="verify")
    def verify(
        self,
        text: Annotated[
            str | None,
            Argument(
                kind=Text(),
                about=f"a text of up to {of_verdicts.MAX_TEXT_CHARS:,} characters, which cites as `[1]`, "
                "`[1, 3]`, `[chunk 12]`, `[document 3]` or `[document 3:120-480]`; instead of `statements`",
            ),
        ] = None,
        *,
        statements: Annotated[
            Sequence[str | Mapping[str, Any]] | None,
            Argument(
                kind=Many(Members(GivenStatement), of_verdicts.MAX_STATEMENTS),
                about="claims with what they cite, instead of `text`",
            ),
            Sent(_as_statements),
        ] = None,
        references: Annotated[
            Sequence[Mapping[str, Any]] | None,
            Argument(
                kind=Many(Members(Reference), of_verdicts.MAX_REFERENCES),
                about="the passages that may be cited; null: every chunk and document of the library, by its "
                "id",
            ),
        ] = None,
        format: Annotated[  # noqa: A002 - the name of the field
            str | None,
            Argument(kind=Choice(DocFormat), default=DocFormat.markdown, about="format of `text`"),
        ] = None,
        min_coverage: Annotated[
            float | None,
            Argument(
                kind=Number(0, 1),
                default=of_verdicts.MIN_COVERAGE,
                about="lowest `coverage` of a supported statement, 0 to 1",
            ),
        ] = None,
    ) -> Verification:
        """Verify that every claim of a text is supported by the passages that it cites"""

    @post("/retrieve", Needed.read, for_tokens=True, fails=(503,), tool="retrieve")
    def retrieve(
        self,
        query: Annotated[str, Argument(kind=Text(), about="up to 4,096 characters")],
        *,
        top_k: Annotated[
            int | None,
            Argument(
                kind=Whole(1, of_retrieval.MAX_TOP_K, setting="max_top_k"),
                default=of_retrieval.DEFAULT_TOP_K,
                about="most results to return",
            ),
        ] = None,
        threshold: Annotated[
            float | None,
            Argument(kind=Number(0, 1), default=0.0, about="lowest `similarity` of a result"),
        ] = None,
        filters: Annotated[
            Mapping[str, Any] | None,
            Argument(
                kind=OBJECT,
                about="only passages of documents with these values under these keys of their metadata; "
                "`source` is the source path",
            ),
        ] = None,
        filter: Annotated[str | Mapping[str, Any] | None, SEARCH["filter"]] = None,  # noqa: A002
    ) -> Retrieval:
        """Retrieve passages of the library as plain content with metadata and a similarity"""

    @post("/facets", Needed.read, for_tokens=True, fails=(503,), command="facets")
    def facets(
        self,
        facets: Facets,
        *,
        facet_limit: FacetLimit = None,
        filters: Filters = None,
        filter: Filter = None,  # noqa: A002
    ) -> LibraryFacets:
        """Count by the values of fields, with filters too long for an address"""

    @post(
        "/explain", Needed.read, for_tokens=True, fails=(404, 503), command="explain", tool="explain_result"
    )
    def explain(self, query: Query, **arguments: Unpack[ExplainRequest]) -> Explanation:
        """Explain how a query is analyzed, and where a document or chunk ranks and why

        The body is that of a search. What only shapes its results, such as `facets` and `text`, has no
        effect.
        """


class OtherSearchOperations:
    """Searches that the client asks in ways of its own."""

    @post("/search", Needed.read, for_tokens=True, fails=(503,), command="search", tool="search_chunks")
    def search(self, query: Query, **arguments: Unpack[SearchRequest]) -> SearchResponse:
        """Search

        With `Accept: application/x-ndjson`, the response is lines: `{"head": …}`, a `{"result": …}` for each
        result, or with `group_by` document a `{"document": …}` for each document, and `{"end": …}` with the
        warnings.
        """

    @get("/search", Needed.read, for_tokens=True, fails=(503,))
    def search_by_address(self, q: Query, **arguments: Unpack[SearchRequest]) -> SearchResponse:
        """Search by query parameters"""

    @post("/search/batch", Needed.read, for_tokens=True, fails=(503,), command="search", tool="search_many")
    def search_many(
        self,
        searches: Annotated[
            Iterable[str | Mapping[str, Any]],
            Argument(
                kind=Many(OBJECT, MAX_SEARCHES),
                about=f"1 to {MAX_SEARCHES} searches: each a query, or an object with `query` and other "
                "fields of the body of `POST /search` but `units` and `owner`. Together they ask for at most "
                f"{MAX_RESULTS:,} results. A bad one has a `problem`, and the others are answered. The time "
                "limit is that of one search; those for which it does not suffice have a `problem`",
            ),
        ],
        *,
        fused: Annotated[
            bool,
            Argument(
                kind=Flag(),
                default=False,
                about="makes one ranking of the results, by reciprocal ranks: `fused`; the searches then "
                "have no `results` of their own",
            ),
        ] = False,
        **of_ranking: Unpack[BatchRequest],
    ) -> BatchResponse:
        """Search several queries

        All searches see the same state of the library. With `Accept: application/x-ndjson`, the response is
        lines: `{"head": …}`, an `{"answer": …}` as soon as a search ends, with `fused` a `{"fused": …}` for
        each fused result, and `{"end": …}` with the warnings.
        """

    @get("/facets", Needed.read, for_tokens=True, fails=(503,))
    def facets_by_address(
        self,
        facets: Facets,
        *,
        facet_limit: FacetLimit = None,
        filters: Filters = None,
        filter: Filter = None,  # noqa: A002
    ) -> LibraryFacets:
        """Count the documents and passages of the library by the values of fields"""
