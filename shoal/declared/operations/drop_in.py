# mypy: disable-error-code="empty-body"
"""Operations of other programs' interfaces. The service has those that `SHOAL_DROP_IN` names.

They are no operations of the API, and no client has methods for them: programs that speak an interface bring
their own. Answers have the form of the interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Required, TypedDict

from shoal.declared.arguments import Argument, Many, Members, Number, Text, Value, Whole
from shoal.declared.operations.operation import post
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
