"""The arguments of operations on notes, declared once."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Annotated, Any, Protocol, Required, TypedDict

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
    TextForm,
    Value,
    Whole,
    arguments_of,
)
from shoal.models.notes import KINDS, SOURCES

MAX_TEXT_CHARS = 20_000
MAX_TAGS = 50
MAX_CATEGORY_DEPTH = 8
DEFAULT_TOP_K = 3
MAX_TOP_K = 50
RECALL_THRESHOLD = 0.7
MAX_CONTEXT = 5
"""Most turns before, and as many behind, a turn."""
MAX_ANSWER_CHARS = 100_000
MAX_SHOWN = 500
"""Most notes that a session was shown at once."""
MAX_MERGED = 20
"""Most notes of one merge."""
MAX_ITEMS = 100
"""Most items of one `remember`: what an agent learns in a conversation."""
MAX_NOTES = 1_000
"""Most notes of one bulk upload. They are stored before the response."""
DEFAULT_OWNER = "default"

CATEGORY = f"a path such as `build/docker`, with at most {MAX_CATEGORY_DEPTH} different parts"
ABOUT_TEXT = f"1 to {MAX_TEXT_CHARS:,} characters"

SAID_AT = "when it was said, ISO 8601; words such as *last Tuesday* count from it. Default: now"
VALID_FROM = (
    "first day on which it holds; default: a day that the text names as past or as a start, else `said_at`"
)
SUPERSEDES = "id of the note that it replaces"

_TEXT = Value({"type": "string"})
_MOMENT = Value({"type": "string"})
_TEXTS = Value({"type": "array", "items": {"type": "string"}}, TextForm.with_commas)
_ONE_OR_MORE = Many(or_one=True)


class AsJson(Protocol):
    """An object that has a form in JSON, such as an `Environment` or `Prerequisites`."""

    def as_json(self) -> Mapping[str, Any]: ...


class Prerequisites(TypedDict, total=False):
    """Where a note may be shown: all given gates must hold. A single text counts as a list."""

    os: Annotated[
        str | Sequence[str], Argument(kind=_ONE_OR_MORE, about="operating systems: linux, darwin, windows")
    ]
    repos: Annotated[str | Sequence[str], Argument(kind=_ONE_OR_MORE, about="names of repositories")]
    paths: Annotated[str | Sequence[str], Argument(kind=_ONE_OR_MORE, about="patterns of the working folder")]
    mcp_servers: Annotated[
        str | Sequence[str], Argument(kind=_ONE_OR_MORE, about="MCP servers; all must be connected")
    ]
    tags: Annotated[
        str | Sequence[str],
        Argument(
            kind=_ONE_OR_MORE, about="become tags of the note or its pin: they weigh, and never exclude"
        ),
    ]


class Environment(TypedDict, total=False):
    """Where a session works. An omitted field is unknown."""

    os: Annotated[str, Argument(kind=Text(), about="operating system: linux, darwin, windows")]
    repo: Annotated[str, Argument(kind=Text(), about="name of the repository")]
    cwd: Annotated[str, Argument(kind=Text(), about="absolute path of the working folder")]
    mcp_servers: Annotated[Sequence[str], Argument(kind=Many(), about="connected MCP servers")]
    tags: Annotated[Sequence[str], Argument(kind=Many(), about="such as languages and frameworks")]


class RememberedItem(TypedDict, total=False):
    """What an agent learned."""

    content: Required[
        Annotated[
            str,
            Argument(
                kind=Text(), about=f"up to {MAX_TEXT_CHARS:,} characters, with two words that carry a meaning"
            ),
        ]
    ]
    topic: Required[Annotated[str, Argument(kind=Text(), about="its subject; not `general` or `misc`")]]
    confidence: Required[Annotated[float, Argument(kind=Number(0, 1), about="above 0.8")]]
    metadata: Annotated[Mapping[str, Any], Argument(kind=OBJECT, about="any JSON object")]
    tags: Annotated[Sequence[str], Argument(kind=Many(), about="where it helps")]
    categories: Annotated[Sequence[str], Argument(kind=Many(), about=f"each {CATEGORY}")]
    session_id: Annotated[str, Argument(kind=Text(), about="the session that submits it")]
    said_at: Annotated[str, Argument(kind=Text(), about=SAID_AT)]
    valid_from: Annotated[str, Argument(kind=Text(), about=VALID_FROM)]
    supersedes: Annotated[int, Argument(kind=Whole(1, MAX_ID), about=SUPERSEDES)]


class RecallArguments(TypedDict, total=False):
    """The arguments of `recall` besides its question."""

    top_k: Annotated[
        int | None,
        Argument(
            kind=Whole(1, MAX_TOP_K),
            metavar="N",
            about=f"most results to return; default {DEFAULT_TOP_K}, or {MAX_TOP_K} with `max_chars`",
        ),
    ]
    threshold: Annotated[
        float | None,
        Argument(kind=Number(0, 1), default=RECALL_THRESHOLD, about="lowest `similarity` of a result"),
    ]
    after: Annotated[
        str | date | None,
        Argument(
            kind=_MOMENT,
            metavar="DAY",
            about="only what happened on this day or later: the time that a "
            "text names, else the day on which it was said",
        ),
    ]
    before: Annotated[
        str | date | None,
        Argument(kind=_MOMENT, metavar="DAY", about="only what happened before this day"),
    ]
    on: Annotated[
        str | date | None, Argument(kind=_MOMENT, metavar="DAY", about="only what happened on this day")
    ]
    valid_at: Annotated[
        str | date | None,
        Argument(kind=_MOMENT, metavar="DAY", about="what held on this day; default: what holds now"),
    ]
    context_turns: Annotated[
        int | None,
        Argument(
            kind=Whole(0, MAX_CONTEXT),
            metavar="N",
            about="turns before and behind each found turn that come with it; default 1, 0 with `max_chars`",
        ),
    ]
    max_chars: Annotated[
        int | None,
        Argument(
            kind=Whole(1, MAX_ANSWER_CHARS),
            metavar="N",
            about="most characters of the texts of all results; those that do not fit are left out",
        ),
    ]


PREREQUISITES = Members(Prerequisites)
ENVIRONMENT = Members(Environment)
ABOUT_ENVIRONMENT = (
    "where the session works: prerequisites are checked against it, and its tags weigh notes. Without one, "
    "all prerequisites hold"
)


class NoteChanges(TypedDict, total=False):
    """The fields of a note that can be changed besides its text."""

    title: Annotated[
        str | None, Argument(kind=_TEXT, default="", metavar="TEXT", about="a short name; may be empty")
    ]
    domain: Annotated[
        str | None, Argument(kind=_TEXT, default="", metavar="TEXT", about="subject, up to 100 characters")
    ]
    tags: Annotated[
        Iterable[str] | None,
        Argument(
            kind=_TEXTS,
            default=(),
            metavar="A,B",
            about=f"where the note helps, such as `python`; up to {MAX_TAGS}",
        ),
    ]
    prerequisites: Annotated[
        AsJson | Mapping[str, Any] | None,
        Argument(kind=PREREQUISITES, about="where the note may be shown; `{}` means everywhere"),
    ]
    metadata: Annotated[
        Mapping[str, Any] | None,
        Argument(kind=OBJECT, metavar="JSON", about="any JSON object up to 64 KiB, returned unchanged"),
    ]
    verified: Annotated[
        bool | None,
        Argument(kind=Flag(), default=False, about="whether a person or a second source confirmed it"),
    ]
    valid_from: Annotated[str | date | None, Argument(kind=_MOMENT, metavar="DAY", about=VALID_FROM)]


class NewNote(NoteChanges, total=False):
    """The fields of a new note besides its text."""

    kind: Annotated[str, Argument(kind=Choice(KINDS), default=KINDS[0], about="what it is")]
    said_at: Annotated[str | datetime | None, Argument(kind=_MOMENT, metavar="TIME", about=SAID_AT)]
    supersedes: Annotated[int | None, Argument(kind=Whole(1, MAX_ID), metavar="ID", about=SUPERSEDES)]
    categories: Annotated[
        Iterable[str],
        Argument(
            kind=Value({"type": "array", "items": {"type": "string"}}, TextForm.repeated),
            default=(),
            option="category",
            metavar="PATH",
            about=f"each {CATEGORY}",
        ),
    ]
    source: Annotated[str, Argument(kind=Choice(SOURCES), default=SOURCES[0], about="who wrote it")]
    session_id: Annotated[
        str | None, Argument(kind=_TEXT, option="session", metavar="ID", about="the session that submits it")
    ]


class NoteListArguments(TypedDict, total=False):
    """What a list of notes is limited to."""

    category: Annotated[
        str | None, Argument(kind=_TEXT, metavar="PATH", about="only notes in this category or below")
    ]
    kind: Annotated[str | None, Argument(kind=Choice(KINDS), about="only notes of this kind")]
    tag: Annotated[str | None, Argument(kind=_TEXT, metavar="T", about="only notes with this tag")]
    include_deprecated: Annotated[
        bool,
        Argument(
            kind=Flag(), default=False, option="deprecated", about="whether to list deprecated notes, too"
        ),
    ]
    pinned: Annotated[
        bool | None, Argument(kind=Flag(), about="only pinned notes, or only those that are not")
    ]


class NoteSearchArguments(TypedDict, total=False):
    """The arguments of a search for notes besides its query."""

    top_k: Annotated[
        int, Argument(kind=Whole(1, MAX_TOP_K), default=DEFAULT_TOP_K, about="most results to return")
    ]
    category: Annotated[
        str | None, Argument(kind=_TEXT, metavar="PATH", about="only notes in this category or below")
    ]
    kind: Annotated[str | None, Argument(kind=Choice(KINDS), about="only notes of this kind")]
    tags: Annotated[
        Iterable[str] | None, Argument(kind=_TEXTS, metavar="A,B", about="only notes with all of these tags")
    ]
    environment: Annotated[
        AsJson | Mapping[str, Any] | None,
        Argument(kind=ENVIRONMENT, about=ABOUT_ENVIRONMENT),
    ]
    session_id: Annotated[
        str | None,
        Argument(
            kind=_TEXT,
            option="session",
            metavar="ID",
            about="leaves out the notes that this session was shown (`POST /notes/shown`)",
        ),
    ]
    threshold: Annotated[
        float, Argument(kind=Number(0, 1), default=0.0, about="lowest `similarity` of a result")
    ]
    include_scores: Annotated[
        bool,
        Argument(
            kind=Flag(), default=False, option="scores", about="adds every step of each score as `scores`"
        ),
    ]


NOTE_CHANGES: Mapping[str, Argument] = MappingProxyType(arguments_of(NoteChanges))
NEW_NOTE: Mapping[str, Argument] = MappingProxyType(arguments_of(NewNote))
RECALL: Mapping[str, Argument] = MappingProxyType(arguments_of(RecallArguments))
NOTE_LIST: Mapping[str, Argument] = MappingProxyType(arguments_of(NoteListArguments))
NOTE_SEARCH: Mapping[str, Argument] = MappingProxyType(arguments_of(NoteSearchArguments))
