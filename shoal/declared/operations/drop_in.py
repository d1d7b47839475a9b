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
            int | None,
            Argument(kind=Whole(1, MAX_FOUND), default=FOUND, may_be_null=True, about="most results"),
        ] = None,
        ranking_options: Annotated[
            Mapping[str, Any] | None, Argument(kind=Members(RankingOptions), about="how to rank")
        ] = None,
        rewrite_query: Annotated[
            bool | None, Argument(kind=Flag(), about="refused if true: no query is rewritten")
        ] = None,
    ) -> None:
        """Search a vector store"""


FILES = f"{OPENAI}/files"
FILE = f"{FILES}/{{file_id}}"
STORE_FILES = f"{STORE}/files"
STORE_FILE = f"{STORE_FILES}/{{file_id}}"
BATCHES = f"{STORE}/file_batches"
BATCH = f"{BATCHES}/{{batch_id}}"
MAX_FILES = 10_000
MAX_BATCH = 2_000
PURPOSES = ("assistants", "user_data")
STATUSES = ("in_progress", "completed", "failed", "cancelled")

_attributes = Argument(
    kind=OBJECT, may_be_null=True, about="up to 16 texts, numbers and truth values, by name"
)
_file_id = Argument(kind=Text(most=64), about="a file that was uploaded")
_status = Argument(kind=Choice(STATUSES), about="only files with this status")


class BatchFile(TypedDict, total=False):
    """A file of a batch."""

    file_id: Required[Annotated[str, _file_id]]
    attributes: Annotated[Mapping[str, Any] | None, _attributes]
    chunking_strategy: Annotated[Mapping[str, Any] | None, _chunking]


class FileOperations:
    """The files of OpenAI's API, which are in no vector store until they are added to one."""

    @post(FILES, Needed.write, of_service=True, own_body=True, names_collection=True)
    def upload_file(self) -> None:
        """Upload a file"""

    @get(FILES, Needed.any_key, of_service=True)
    def list_files(
        self,
        *,
        after: After = None,
        limit: Annotated[int, Argument(kind=Whole(1, MAX_FILES), about="most files")] = MAX_FILES,
        order: Order = "desc",
        purpose: Annotated[str | None, Argument(kind=Text(most=64), about="only with this purpose")] = None,
    ) -> None:
        """List uploaded files"""

    @get(FILE, Needed.read, of_service=True, names_collection=True)
    def retrieve_file(self, file_id: str) -> None:
        """Get a file"""

    @get(f"{FILE}/content", Needed.read, of_service=True, names_collection=True)
    def retrieve_file_content(self, file_id: str) -> None:
        """Get what a file holds"""

    @delete(FILE, Needed.write, of_service=True, names_collection=True)
    def delete_file(self, file_id: str) -> None:
        """Delete a file, in all vector stores, too"""

    @post(STORE_FILES, Needed.write, of_service=True, names_collection=True)
    def add_store_file(
        self,
        vector_store_id: str,
        file_id: Annotated[str, _file_id],
        *,
        attributes: Annotated[Mapping[str, Any] | None, _attributes] = None,
        chunking_strategy: Annotated[Mapping[str, Any] | None, _chunking] = None,
    ) -> None:
        """Add a file to a vector store"""

    @get(STORE_FILES, Needed.read, of_service=True, for_tokens=True, names_collection=True)
    def list_store_files(
        self,
        vector_store_id: str,
        *,
        after: After = None,
        before: Before = None,
        limit: PageLimit = 20,
        order: Order = "desc",
        filter: Annotated[str | None, _status] = None,  # noqa: A002 - the name of the parameter
    ) -> None:
        """List the files of a vector store"""

    @get(STORE_FILE, Needed.read, of_service=True, for_tokens=True, names_collection=True)
    def retrieve_store_file(self, vector_store_id: str, file_id: str) -> None:
        """Get a file of a vector store"""

    @post(STORE_FILE, Needed.write, of_service=True, fills=False, names_collection=True)
    def update_store_file(
        self,
        vector_store_id: str,
        file_id: str,
        attributes: Annotated[Mapping[str, Any] | None, _attributes],
    ) -> None:
        """Replace the attributes of a file of a vector store"""

    @delete(STORE_FILE, Needed.write, of_service=True, names_collection=True)
    def delete_store_file(self, vector_store_id: str, file_id: str) -> None:
        """Remove a file from a vector store"""

    @get(f"{STORE_FILE}/content", Needed.read, of_service=True, for_tokens=True, names_collection=True)
    def read_store_file(self, vector_store_id: str, file_id: str) -> None:
        """Get the text of a file of a vector store"""

    @post(BATCHES, Needed.write, of_service=True, names_collection=True)
    def create_file_batch(
        self,
        vector_store_id: str,
        *,
        file_ids: Annotated[
            Sequence[str] | None, Argument(kind=Many(Text(most=64), MAX_BATCH), about="files, or `files`")
        ] = None,
        files: Annotated[
            Sequence[Mapping[str, Any]] | None,
            Argument(kind=Many(Members(BatchFile), MAX_BATCH), about="files with their own attributes"),
        ] = None,
        attributes: Annotated[Mapping[str, Any] | None, _attributes] = None,
        chunking_strategy: Annotated[Mapping[str, Any] | None, _chunking] = None,
    ) -> None:
        """Add many files to a vector store"""

    @get(BATCH, Needed.read, of_service=True, names_collection=True)
    def retrieve_file_batch(self, vector_store_id: str, batch_id: str) -> None:
        """Get a batch of files"""

    @post(f"{BATCH}/cancel", Needed.write, of_service=True, names_collection=True)
    def cancel_file_batch(self, vector_store_id: str, batch_id: str) -> None:
        """Cancel a batch of files"""

    @get(f"{BATCH}/files", Needed.read, of_service=True, names_collection=True)
    def list_batch_files(
        self,
        vector_store_id: str,
        batch_id: str,
        *,
        after: After = None,
        before: Before = None,
        limit: PageLimit = 20,
        order: Order = "desc",
        filter: Annotated[str | None, _status] = None,  # noqa: A002 - the name of the parameter
    ) -> None:
        """List the files of a batch"""


class OpenAIOperations(VectorStoreOperations, FileOperations):
    """What of OpenAI's API is answered."""
