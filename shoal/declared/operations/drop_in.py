# mypy: disable-error-code="empty-body"
"""Operations of other programs' interfaces. The service has those that `SHOAL_DROP_IN` names.

They are no operations of the API, and no client has methods for them: programs that speak an interface bring
their own. Answers have the form of the interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Required, TypedDict

from shoal.declared.arguments import (
    OBJECT,
    Argument,
    Choice,
    Flag,
    Many,
    Members,
    Number,
    Text,
    Value,
    Whole,
)
from shoal.declared.operations.operation import delete, get, post
from shoal.models.keys import Needed
from shoal.models.search import MAX_TOP_K

DIFY, OPENAI = "/dify", "/openai/v1"
"""What the paths of an interface begin with."""
MAX_CONDITIONS = 256
"""As in a filter."""


class RetrievalSetting(TypedDict, total=False):
    """How many records Dify asks for, and how relevant they have to be."""

    top_k: Required[Annotated[int, Argument(kind=Whole(1, MAX_TOP_K), about="most records to return")]]
    score_threshold: Required[
        Annotated[float, Argument(kind=Number(0, 1), about="lowest `score`, which is the relevance")]
    ]


class MetadataComparison(TypedDict, total=False):
    """A condition of Dify."""

    name: Required[
        Annotated[str | Sequence[str], Argument(kind=Value({}), about="a field, or a key of the metadata")]
    ]
    comparison_operator: Required[Annotated[str, Argument(kind=Text(), about="how it compares")]]
    value: Annotated[Any, Argument(kind=Value({}), may_be_null=True, about="what it compares with")]


class MetadataCondition(TypedDict, total=False):
    """The conditions of Dify, and how they are joined."""

    logical_operator: Annotated[
        str | None, Argument(kind=Text(), may_be_null=True, about="`and`, the default, or `or`")
    ]
    conditions: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Argument(
            kind=Many(Members(MetadataComparison), MAX_CONDITIONS),
            may_be_null=True,
            about="conditions on documents",
        ),
    ]


class DifyOperations:
    """Dify's external knowledge API."""

    @post(f"{DIFY}/retrieval", Needed.read, of_service=True, for_tokens=True, names_collection=True)
    def dify_retrieval(
        self,
        knowledge_id: Annotated[str, Argument(kind=Text(), about="name of the collection")],
        query: Annotated[str, Argument(kind=Text(), about="the query")],
        retrieval_setting: Annotated[
            Mapping[str, Any], Argument(kind=Members(RetrievalSetting), about="how many records, and which")
        ],
        metadata_condition: Annotated[
            Mapping[str, Any] | None,
            Argument(kind=Members(MetadataCondition), about="conditions on documents"),
        ] = None,
    ) -> None:
        """Retrieve records for Dify"""


STORES = f"{OPENAI}/vector_stores"
STORE = f"{STORES}/{{vector_store_id}}"
MAX_STORES = 100
MAX_QUERIES = 10
MAX_FOUND = 50
FOUND = 10
"""Results of a search, by the contract."""

_of_page = {
    "after": Argument(kind=Text(most=64), about="the id after which the page begins"),
    "before": Argument(kind=Text(most=64), about="the id before which the page ends"),
    "limit": Argument(kind=Whole(1, MAX_STORES), default=20, about="most objects of the page"),
    "order": Argument(kind=Choice(("asc", "desc")), default="desc", about="order by `created_at`"),
}
After = Annotated[str | None, _of_page["after"]]
Before = Annotated[str | None, _of_page["before"]]
PageLimit = Annotated[int, _of_page["limit"]]
Order = Annotated[str, _of_page["order"]]
_expiry = Argument(kind=OBJECT, may_be_null=True, about="refused: nothing expires")
_metadata = Argument(kind=OBJECT, may_be_null=True, about="up to 16 texts, by name")
_chunking = Argument(kind=OBJECT, may_be_null=True, about="`auto`, or `static` without overlap")
_name = Argument(kind=Text(most=256), may_be_null=True, about="any name")
_description = Argument(kind=Text(most=512), may_be_null=True, about="what it is for")


class RankingOptions(TypedDict, total=False):
    """How a search of a vector store ranks."""

    ranker: Annotated[
        str | None, Argument(kind=Text(), may_be_null=True, about="`auto` or `none`, which are the same")
    ]
    score_threshold: Annotated[
        float | None,
        Argument(kind=Number(0, 1), may_be_null=True, about="lowest `score`, which is the relevance"),
    ]


class VectorStoreOperations:
    """The vector stores of OpenAI's API: collections."""

    @get(STORES, Needed.any_key, of_service=True)
    def list_vector_stores(
        self, *, after: After = None, before: Before = None, limit: PageLimit = 20, order: Order = "desc"
    ) -> None:
        """List vector stores"""

    @post(STORES, Needed.manage, of_service=True, needs_body=False)
    def create_vector_store(
        self,
        *,
        name: Annotated[str | None, _name] = None,
        description: Annotated[str | None, _description] = None,
        file_ids: Annotated[
            Sequence[str] | None, Argument(kind=Many(Text(most=64), 500), about="files to add")
        ] = None,
        metadata: Annotated[Mapping[str, Any] | None, _metadata] = None,
        chunking_strategy: Annotated[Mapping[str, Any] | None, _chunking] = None,
        expires_after: Annotated[Mapping[str, Any] | None, _expiry] = None,
    ) -> None:
        """Create a vector store"""

    @get(STORE, Needed.read, of_service=True, names_collection=True)
    def retrieve_vector_store(self, vector_store_id: str) -> None:
        """Get a vector store"""

    @post(STORE, Needed.manage, of_service=True, fills=False, needs_body=False)
    def modify_vector_store(
        self,
        vector_store_id: str,
        *,
        name: Annotated[str | None, _name] = None,
        metadata: Annotated[Mapping[str, Any] | None, _metadata] = None,
        expires_after: Annotated[Mapping[str, Any] | None, _expiry] = None,
    ) -> None:
        """Change the name or the metadata of a vector store"""

    @delete(STORE, Needed.manage, of_service=True)
    def delete_vector_store(self, vector_store_id: str) -> None:
        """Delete a vector store"""

    @post(f"{STORE}/search", Needed.read, of_service=True, for_tokens=True, names_collection=True)
    def search_vector_store(
        self,
        vector_store_id: str,
        query: Annotated[
            str | Sequence[str],
            Argument(kind=Many(Text(), MAX_QUERIES, or_one=True), about="a query, or several"),
        ],
        *,
        filters: Annotated[
            Mapping[str, Any] | None, Argument(kind=OBJECT, about="comparisons of attributes")
        ] = None,
        max_num_results: Annotated[
            int | None, Argument(kind=Whole(1, MAX_FOUND), default=FOUND, about="most results")
        ] = None,
        ranking_options: Annotated[
            Mapping[str, Any] | None, Argument(kind=Members(RankingOptions), about="how to rank")
        ] = None,
        rewrite_query: Annotated[
            bool | None, Argument(kind=Flag(), about="refused if true: no query is rewritten")
        ] = None,
    ) -> None:
        """Search a vector store"""
