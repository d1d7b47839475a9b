"""Schemas of notes. Types are checked here, everything else by `shoal.notes`."""

from __future__ import annotations

from typing import Any

from marshmallow import fields

from shoal.declared.arguments import MAX_ID
from shoal.declared.notes import (
    ABOUT_TEXT,
    CATEGORY,
    DEFAULT_TOP_K,
    MAX_TEXT_CHARS,
    MAX_TOP_K,
    NEW_NOTE,
    NOTE_CHANGES,
    NOTE_LIST,
    NOTE_SEARCH,
)
from shoal.models.notes import (
    AddedNote,
    CategoryCount,
    Feedback,
    HistoryEntry,
    Note,
    NoteExplanation,
    NoteOutcomes,
    NotePage,
    NoteResponse,
    NoteStatus,
    Recall,
)
from shoal.notes.notes import MAX_SHOWN, RECALL_THRESHOLD
from shoal_api.schemas.arguments import address_fields, body_fields, schema_of
from shoal_api.schemas.common import (
    BoundedList,
    Moment,
    OneOrMany,
    PageSchema,
    Records,
    Schema,
    StrictBoolean,
    StrictFloat,
    Unchecked,
    between,
    stated,
)
from shoal_api.schemas.records import record_schema

DEFAULT_OWNER = "default"
MAX_ITEMS = 100
"""Most items of one `remember`: what an agent learns in a conversation."""
MAX_NOTES = 1000
"""Most notes of one bulk upload. They are stored before the response."""

ABOUT_OWNER = (
    "whose notes these are, 1 to 200 characters; to one owner, the notes of another do not exist. Default: "
    f"`{DEFAULT_OWNER}`"
)
QUERY = "what you want to know; it has no operators, so it may be a prompt or a command"
ENVIRONMENT = NOTE_SEARCH["environment"].about


def _text(description: str, *, required: bool = False, **options: Any) -> fields.String:
    return fields.String(required=required, metadata={"description": description}, **options)


def _texts(description: str, **options: Any) -> BoundedList:
    return BoundedList(fields.String(), metadata={"description": description}, **options)


class OwnerQuerySchema(Schema):
    """The owner as a query parameter."""

    owner = _text(ABOUT_OWNER)


OWNED = {"owner": _text(f"{ABOUT_OWNER}. May be a query parameter instead")}


class OwnedSchema(Schema):
    """The owner in a body, the same as the query parameter."""

    owner = OWNED["owner"]


class MaybeAbsentSchema(OwnedSchema):
    """A body that may be left out."""

    may_be_absent = True


class PrerequisitesSchema(Schema):
    """Where a note may be shown: all given gates must hold. A single text counts as a list."""

    os = OneOrMany(fields.String(), metadata={"description": "operating systems: linux, darwin, windows"})
    repos = OneOrMany(fields.String(), metadata={"description": "names of repositories"})
    paths = OneOrMany(fields.String(), metadata={"description": "patterns of the working folder"})
    mcp_servers = OneOrMany(fields.String(), metadata={"description": "MCP servers; all must be connected"})
    tags = OneOrMany(
        fields.String(),
        metadata={"description": "become tags of the note or its pin: they weigh, and never exclude"},
    )


class EnvironmentSchema(Schema):
    """Where a session works. An omitted field is unknown."""

    os = _text("operating system: linux, darwin, windows")
    repo = _text("name of the repository")
    cwd = _text("absolute path of the working folder")
    mcp_servers = _texts("connected MCP servers")
    tags = _texts("such as languages and frameworks")


def _prerequisites(description: str) -> fields.Nested:
    return fields.Nested(PrerequisitesSchema, metadata={"description": description})


def _environment() -> fields.Nested:
    return fields.Nested(EnvironmentSchema, metadata={"description": ENVIRONMENT})


OF_NOTE = {"prerequisites": _prerequisites(NOTE_CHANGES["prerequisites"].about)}
NewNoteSchema = schema_of(
    "NewNote",
    {
        **OWNED,
        "text": _text(ABOUT_TEXT, required=True),
        **body_fields(NEW_NOTE, fills=False),
        **OF_NOTE,
    },
    "A note to store.",
)
NoteChangesSchema = schema_of(
    "NoteChanges",
    {**OWNED, "text": _text(ABOUT_TEXT), **body_fields(NOTE_CHANGES, fills=False), **OF_NOTE},
    "Changes of a note. Omitted fields keep their values; lists and objects replace the old ones.",
)
NoteQuerySchema = schema_of(
    "NoteQuery",
    {**PageSchema().declared_fields, "owner": _text(ABOUT_OWNER), **address_fields(NOTE_LIST)},
)


class ReasonSchema(MaybeAbsentSchema):
    reason = _text("why, up to 1,000 characters", load_default="")


class RestoreSchema(MaybeAbsentSchema):
    """Only the owner."""


class PinNoteSchema(MaybeAbsentSchema):
    tags = _texts("the pin counts where all of these hold; default: the tags of `prerequisites`, else none")
    prerequisites = _prerequisites("replace those of the note")


class CategorizeSchema(OwnedSchema):
    add = _texts(f"categories to add; each {CATEGORY}", load_default=())
    remove = _texts("categories to remove", load_default=())


class FeedbackInputSchema(OwnedSchema):
    applicable = StrictBoolean(required=True, metadata={"description": "whether the note helped"})
    reason = _text("why, up to 1,000 characters", load_default="")
    tag_scores = fields.Dict(
        keys=fields.String(),
        values=StrictFloat(validate=between(-1, 1)),
        metadata={
            "description": "judges single tags, -1 to 1; default: 1 or -1 for the tags of the environment, "
            "else of the session, else of the note"
        },
    )
    add_prerequisites = _prerequisites("added to those of the note")
    session_id = _text("the session that judges", load_default="")
    environment = _environment()


NoteSearchSchema = schema_of(
    "NoteSearch",
    {
        **OWNED,
        "query": _text(QUERY, required=True),
        **body_fields(NOTE_SEARCH),
        "environment": _environment(),
    },
)


class NoteExplainSchema(OwnedSchema):
    query = _text(QUERY, required=True)
    environment = _environment()


class PinnedSchema(OwnedSchema):
    environment = fields.Nested(
        EnvironmentSchema, load_default=dict, metadata={"description": "where the session works"}
    )


class ShownSchema(OwnedSchema):
    session_id = _text("the session that was shown the notes", required=True)
    note_ids = BoundedList(
        fields.Integer(strict=True, validate=between(1, MAX_ID)),
        required=True,
        max_items=MAX_SHOWN,
        metadata={"description": f"ids of the notes, at most {MAX_SHOWN}"},
    )
    event = _text("what caused it, such as `prompt` or `session-start`", load_default="")
    environment = _environment()
    context = _text("what was searched for", load_default="")


class PurgeSchema(MaybeAbsentSchema):
    before = Moment(
        metadata={"description": "only notes deprecated before this time (ISO 8601); default: all deprecated"}
    )


class PurgedSchema(Schema):
    n_purged = fields.Integer(required=True, metadata={"description": "number of notes that were deleted"})


class CategoriesSchema(Schema):
    categories = Records(
        record_schema(CategoryCount),
        required=True,
        metadata={"description": "in alphabetical order of their paths"},
    )


class HistorySchema(Schema):
    history = Records(
        record_schema(HistoryEntry), required=True, metadata={"description": "the changes, oldest first"}
    )


class FeedbackListSchema(Schema):
    feedback = Records(
        record_schema(Feedback), required=True, metadata={"description": "the judgements, oldest first"}
    )


SIMILARITY = "of query and note, 0 to 1; comparable between queries"
NOTE_WORDS = "words of the query that the note holds, in any inflection"


class RememberedItemSchema(Schema):
    """What an agent learned."""

    content = _text(f"over 30 characters, up to {MAX_TEXT_CHARS:,}", required=True)
    topic = _text("its subject; not `general` or `misc`", required=True)
    confidence = StrictFloat(required=True, metadata=stated(0, 1, "above 0.8"))
    metadata = fields.Dict(keys=fields.String(), metadata={"description": "any JSON object"})
    tags = _texts("where it helps")
    categories = _texts(f"each {CATEGORY}")
    session_id = _text("the session that submits it")


class RememberSchema(Schema):
    items = BoundedList(
        Unchecked(RememberedItemSchema),
        required=True,
        max_items=MAX_ITEMS,
        metadata={"description": f"at most {MAX_ITEMS}; an invalid item does not stop the others"},
    )


class RecallSchema(Schema):
    query = _text(QUERY, required=True)
    top_k = fields.Integer(
        strict=True,
        load_default=DEFAULT_TOP_K,
        metadata=stated(1, MAX_TOP_K, "most results to return"),
    )
    threshold = StrictFloat(
        load_default=RECALL_THRESHOLD, metadata=stated(0, 1, "lowest `similarity` of a result")
    )


NoteSchema = record_schema(Note)
AddedNoteSchema = record_schema(AddedNote)
NoteOutcomesSchema = record_schema(NoteOutcomes)
NoteListSchema = record_schema(NotePage, "NoteList")
NoteResponseSchema = record_schema(NoteResponse)
NoteExplanationSchema = record_schema(NoteExplanation)
RecalledSchema = record_schema(Recall, "Recalled")
NoteStatusSchema = record_schema(NoteStatus)
