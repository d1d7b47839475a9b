"""What a document is given besides its content, declared once."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Required, TypedDict

from shoal.declared.arguments import Argument, Many, Members, Text, TextForm, Value, Whole, arguments_of
from shoal.models.documents import DocFormat

MAX_HEADINGS = 6
"""Headings above a passage, as many as levels of Markdown."""
_TEXT = Value({"type": "string"})


class Passage(TypedDict, total=False):
    """A passage that the caller has cut. It is stored as it is, without the white space at its ends."""

    text: Required[Annotated[str, Argument(kind=Text(), about="up to `SHOAL_MAX_CHUNK_CHARS` characters")]]
    heading: Annotated[
        str | Sequence[str],
        Argument(
            kind=Value({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            about=f"the headings above it: a text, or a list of up to {MAX_HEADINGS} texts from the "
            "outermost on",
        ),
    ]
    start: Annotated[
        int | None,
        Argument(
            kind=Whole(0),
            may_be_null=True,
            about="offset of `text` in `content`, in code points; without it, the passage is found after the "
            "one before",
        ),
    ]
    page: Annotated[
        int | None, Argument(kind=Whole(1), may_be_null=True, about="the page that it begins on, from 1")
    ]
    page_end: Annotated[
        int | None,
        Argument(kind=Whole(1), may_be_null=True, about="the page that it ends on; default: `page`"),
    ]
    line: Annotated[
        int | None,
        Argument(kind=Whole(1), may_be_null=True, about="the line of its source that it begins on, from 1"),
    ]
    line_end: Annotated[
        int | None,
        Argument(kind=Whole(1), may_be_null=True, about="the line that it ends on; default: `line`"),
    ]


class DocumentFields(TypedDict, total=False):
    """What a document is given besides its content. A field that is missing or None gets the default."""

    title: Annotated[
        str | None,
        Argument(
            kind=_TEXT,
            about="up to 512 characters; default: from the front matter, the file's name, the first heading "
            "or the first line",
        ),
    ]
    format: Annotated[
        DocFormat | str | None,
        Argument(
            kind=Value({"type": "string", "enum": [*map(str, DocFormat), None]}),
            about="default: from the suffix of `source_path`, else plain text",
        ),
    ]
    tags: Annotated[
        Iterable[str] | None,
        Argument(
            kind=Value({"type": "array", "items": {"type": "string"}}, TextForm.with_commas),
            about="up to 64 of up to 64 characters, stripped and unique; default: from the front matter",
        ),
    ]
    metadata: Annotated[
        Mapping[str, Any] | None,
        Argument(kind=Value({"type": "object"}, TextForm.json), about="any JSON object up to 64 KiB"),
    ]
    source_path: Annotated[
        str | None,
        Argument(kind=_TEXT, about="where the text comes from; a label only. Of a file, by default its path"),
    ]
    language: Annotated[
        str | None,
        Argument(
            kind=_TEXT,
            about="language of all of it, a code of ISO 639-1 such as `de`; default: detected, for each "
            "passage on its own",
        ),
    ]
    chunk_tokens: Annotated[
        str | None,
        Argument(
            kind=_TEXT,
            about="fewest and most tokens of a chunk, such as `300-800`: the text is cut at the best changes "
            "of topic that give such chunks; `any`: wherever the topic changes; default: "
            "`SHOAL_CHUNK_TOKENS`",
        ),
    ]
    allow: Annotated[
        Sequence[str] | None,
        Argument(
            kind=Value({"type": "array", "items": {"type": "string"}}, TextForm.with_commas),
            about="who may see it with a search token: `everyone`, `user:NAME`, `group:NAME`, up to 1,000; "
            "default: what the collection says of documents without rights",
        ),
    ]
    deny: Annotated[
        Sequence[str] | None,
        Argument(
            kind=Value({"type": "array", "items": {"type": "string"}}, TextForm.with_commas),
            about="who may not, whatever `allow` says; up to 1,000",
        ),
    ]
    chunks: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Argument(
            kind=Many(Members(Passage), most=None),
            about="passages that are cut already, in order and without overlap, each with `text` and perhaps "
            "places; they are stored as they are, and without `content` they are the text",
        ),
    ]


DOCUMENT: Mapping[str, Argument] = MappingProxyType(arguments_of(DocumentFields))
