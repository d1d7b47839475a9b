"""The filters of a search, declared once. docs/filters.md has the expressions, which can say more."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from shoal.declared.arguments import (
    Argument,
    Choice,
    Ids,
    Moment,
    Number,
    TextForm,
    Value,
    Whole,
    arguments_of,
)
from shoal.models.documents import DocFormat
from shoal.models.search import TagsMatch

MAX_METADATA = 16
"""Most keys in a metadata filter; each is searched in the metadata of all documents."""
N_ARCHIPELAGOS = 4
_LISTED = "; comma-separated, or with the parameter repeated"
_TEXTS = {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """Conditions that a result must meet. `document_ids`, `source_path`: None is no condition, () matches
    nothing. Times are UTC timestamps in ISO 8601 (`2026-01-31T00:00:00.000Z`)."""

    tags: Annotated[
        tuple[str, ...],
        Argument(
            kind=Value(_TEXTS, TextForm.with_commas),
            about="only chunks of documents with these tags",
            address=_LISTED,
        ),
    ] = ()
    tags_match: Annotated[
        TagsMatch,
        Argument(
            kind=Choice(TagsMatch),
            default=TagsMatch.all,
            about="whether a document needs `all` of the tags or `any` of them",
        ),
    ] = TagsMatch.all
    min_confidence: Annotated[
        float | None,
        Argument(
            kind=Number(),
            about="lowest `confidence` of a chunk, from 0: the z-score of its strongest reef minus that of "
            "the second, a measure of how clearly it has one topic (above 3 high, below 1 low)",
        ),
    ] = None
    min_coverage: Annotated[
        float | None,
        Argument(
            kind=Number(0, 1),
            about="lowest `coverage` of a chunk: the share of its words that the topic model knows, 0 to 1",
        ),
    ] = None
    reef_ids: Annotated[
        tuple[int, ...] | None,
        Argument(
            kind=Ids(0),
            about="only chunks whose first label is one of these (`GET /api/v1/reefs` lists them)",
            address=_LISTED,
        ),
    ] = None
    island_ids: Annotated[
        tuple[int, ...] | None,
        Argument(
            kind=Ids(0), about="only chunks whose first label is on one of these islands", address=_LISTED
        ),
    ] = None
    archipelago: Annotated[
        int | None,
        Argument(
            kind=Whole(0, N_ARCHIPELAGOS - 1),
            about="only chunks that score highest in this archipelago, 0 to 3",
        ),
    ] = None
    document_ids: Annotated[
        tuple[int, ...] | None,
        Argument(
            kind=Ids(1),
            about="only chunks of these documents",
            body="; [] matches nothing",
            address=_LISTED,
        ),
    ] = None
    format: Annotated[
        DocFormat | None,
        Argument(kind=Choice(DocFormat), about="only chunks of documents in this format"),
    ] = None
    created_after: Annotated[
        str | None,
        Argument(kind=Moment(), about="only chunks of documents stored at this time (ISO 8601) or later"),
    ] = None
    created_before: Annotated[
        str | None,
        Argument(kind=Moment(), about="only chunks of documents stored before this time (ISO 8601)"),
    ] = None
    source_path: Annotated[
        tuple[str, ...] | None,
        Argument(
            kind=Value({"type": ["string", "array"], "items": {"type": "string"}}, TextForm.repeated),
            about="only chunks of documents with exactly this source path, or one of these",
            body="; [] matches nothing",
            address=" (repeat the parameter)",
        ),
    ] = None
    metadata: Annotated[
        Mapping[str, Any] | None,
        Argument(
            kind=Value(
                {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                    "maxProperties": MAX_METADATA,
                },
                TextForm.json,
            ),
            about="only chunks of documents with these values under these top-level keys of their metadata. "
            "Values can be strings, numbers, booleans and null, and types must match: 1 equals 1.0, but not "
            '"1" or true; null matches only a key that is present. At most '
            f"{MAX_METADATA} keys",
            address='. As a JSON object: `{"language":"de"}`',
        ),
    ] = None
    name_contains: Annotated[
        str | None,
        Argument(
            kind=Value({"type": "string"}),
            about="only chunks of documents with this text in their title or source path, in any case",
        ),
    ] = None
    file_type: Annotated[
        str | None,
        Argument(
            kind=Value({"type": "string"}),
            about="only chunks of documents of this type: one such as `pdf`, `docx`, `html`, `markdown`, "
            "`video` or `image`, or a suffix of the source path, such as `.py`",
        ),
    ] = None


FILTERS: Mapping[str, Argument] = MappingProxyType(arguments_of(SearchFilters))
"""The filters by name."""
