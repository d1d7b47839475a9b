"""The values of notes: what is stored of one, what a search returns, how a score came about, and similarity.

All dataclasses are frozen. Times are UTC in ISO 8601 (`2026-01-31T00:00:00.000Z`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from shoal.errors import NoteError
from shoal.models.described import Presence, Time
from shoal.models.queries import QueryInfo
from shoal.models.scores import (
    Reasons,
    Relevance,
    Scores,
    SharedReef,
    TermCoverage,
)
from shoal.models.search import SearchResult
from shoal.models.vocabulary import Label

TURN = "turn"
"""The kind of what was said in a conversation, word for word: its title is the speaker."""
KINDS = ("lesson", "atom", "knowledge", TURN)
SOURCES = ("manual", "agent", "mcp", "extraction", "import")
CHANGES = ("attribute", "relation", "ended", "amount", "polarity", "slot")
"""How a statement changes a fact (`shoal.notes.facts`)."""
PINNED_BY = ("person", "tags", "relevance")
DECIDED_BY = ("person", "agent", "endpoint")
PROPOSAL_STATUSES = ("open", "merged", "rejected", "outdated")
DUPLICATE = 0.85
"""Texts that are at least this similar, and not opposite, say the same."""
MAX_CHARS = 20_000
"""Characters of a text; the limit of notes."""


class TagRelevance(NamedTuple):
    """How relevant a note was where a tag holds."""

    score: Annotated[float, "moving average of the judgements with this tag, -1 to 1"]
    n_positive: Annotated[int, "judgements above 0"]
    n_negative: Annotated[int, "other judgements"]

    @property
    def n_evals(self) -> int:
        return self.n_positive + self.n_negative


class TagSetMatches(NamedTuple):
    """How often a note was shown in environments with exactly these tags."""

    tags: Annotated[tuple[str, ...], "the tags of the environment"]
    n_matches: Annotated[int, "how often the note was shown there"]


@dataclass(frozen=True, slots=True)
class NoteEvent:
    """The time that a text names."""

    first_day: Annotated[str, "such as `2026-01-31`"]
    last_day: Annotated[str, "the same for a single day"]
    words: Annotated[str, "the words of the text that name it; relative ones count from `said_at`"]


@dataclass(frozen=True, slots=True)
class Note:
    """A stored note with its evidence."""

    id: Annotated[int, "id of the note"]
    owner: Annotated[str, "whose note it is"]
    kind: Annotated[str, "what it is; a `turn` was said word for word, and its title is the speaker", KINDS]
    title: Annotated[str, "may be empty"]
    text: Annotated[str, "as stored; control characters are spaces"]
    domain: Annotated[str, "subject; may be empty"]
    tags: tuple[str, ...]
    categories: Annotated[tuple[str, ...], "paths in alphabetical order"]
    prerequisites: Annotated[
        Mapping[str, tuple[str, ...]], "`os`, `repos`, `paths`, `mcp_servers`: where it may be shown"
    ]
    source: Annotated[str, "who wrote it", SOURCES]
    metadata: Annotated[Mapping[str, Any], "as it was given"]
    verified: Annotated[bool, "whether a person or a second source confirmed it"]
    pinned_by: Annotated[str | None, "`tags`: it was shown often enough; null without a pin", PINNED_BY]
    pin_tags: Annotated[tuple[str, ...], "the pin counts where all of these hold"]
    occurrence_count: Annotated[int, "how often its text was submitted"]
    times_matched: Annotated[int, "how often it was shown"]
    last_matched: Annotated[str | None, "when it was last shown, UTC in ISO 8601"]
    deprecated_at: Annotated[str | None, "null for an active note"]
    deprecated_reason: Annotated[str | None, "as given"]
    merged_into: Annotated[int | None, "id of the note that absorbed it"]
    repo_matches: Annotated[Mapping[str, int], "how often it was shown, by repository"]
    tag_set_matches: Annotated[
        tuple[TagSetMatches, ...], "how often it was shown, by the tags of the environment"
    ]
    tag_relevance: Annotated[Mapping[str, TagRelevance], "how it was judged, by tag"]
    sessions: Annotated[tuple[str, ...], "the sessions that submitted it"]
    labels: tuple[Label, ...]
    said_at: Annotated[Time, "when it was said, UTC in ISO 8601; by default when it was stored"]
    event: Annotated[NoteEvent | None, "the first time that its text names; null without one"]
    valid_from: Annotated[str, "first day on which it holds"]
    valid_to: Annotated[str | None, "day on which another note replaced it; null: it holds"]
    superseded_by: Annotated[int | None, "id of the note that replaced it"]
    created_at: Annotated[Time, "UTC in ISO 8601"]
    updated_at: Annotated[Time, "time of its last change, UTC in ISO 8601"]
    change_number: Annotated[int, "number of its last change among the changes of all notes"]

    @property
    def pinned(self) -> bool:
        return self.pinned_by is not None

    @property
    def is_active(self) -> bool:
        return self.deprecated_at is None


@dataclass(frozen=True, slots=True)
class SimilarNote:
    """An active note that is similar to a new one."""

    id: Annotated[int, "id of the note"]
    text: Annotated[str, "its text"]
    similarity: Annotated[float, "0 to 1"]
    is_opposite: Annotated[bool, "whether the two may contradict each other"]
    change: Annotated[
        str | None, "how the new note changes what this one says; null if it does not", CHANGES
    ] = None
    is_superseded: Annotated[bool, "whether the new note has replaced it"] = False


@dataclass(frozen=True, slots=True)
class AddedNote:
    """A submitted note."""

    note: Annotated[Note, "the stored note"]
    is_duplicate: Annotated[
        bool,
        "whether its text was stored already; then its `occurrence_count` went up, and other fields stayed",
    ]
    similar: Annotated[
        tuple[SimilarNote, ...],
        "active notes that say nearly the same, the opposite, or what it changes; most similar first",
    ] = ()


@dataclass(frozen=True, slots=True)
class NoteOutcome:
    """What became of one of several notes."""

    note_id: Annotated[int | None, "null if it was refused"]
    is_duplicate: Annotated[bool, "whether a stored note was counted again instead"] = False
    similar: Annotated[
        tuple[SimilarNote, ...], "notes that say nearly the same, the opposite, or what it changes"
    ] = ()
    field: Annotated[str | None, "the invalid field; null if it was stored"] = None
    error: Annotated[str | None, "why it was refused; null if it was stored"] = None


@dataclass(frozen=True, slots=True)
class NoteOutcomes:
    """What became of several notes."""

    results: Annotated[tuple[NoteOutcome, ...], "one for each note, in order"]
    n_added: Annotated[int, "number of new notes"]
    n_duplicates: Annotated[int, "number of notes counted again"]
    n_refused: Annotated[int, "number of refused notes"]

    @classmethod
    def of(cls, stored: Iterable[AddedNote | NoteError]) -> NoteOutcomes:
        """Summarize notes that were stored or refused."""
        return cls.summed(map(outcome_of, stored))

    @classmethod
    def summed(cls, outcomes: Iterable[NoteOutcome]) -> NoteOutcomes:
        """Count outcomes."""
        results = tuple(outcomes)
        n_refused = sum(result.error is not None for result in results)
        n_duplicates = sum(result.is_duplicate for result in results)
        return cls(results, len(results) - n_refused - n_duplicates, n_duplicates, n_refused)


def outcome_of(stored: AddedNote | NoteError) -> NoteOutcome:
    """Return what became of a note."""
    if isinstance(stored, NoteError):
        return NoteOutcome(None, field=stored.field, error=stored.message)
    return NoteOutcome(stored.note.id, stored.is_duplicate, stored.similar)


@dataclass(frozen=True, slots=True)
class NotePage:
    """A page of a listing."""

    notes: Annotated[tuple[Note, ...], "a page of notes, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class ForgottenNotes:
    """What was forgotten."""

    note_ids: Annotated[
        tuple[int, ...], "the note, those of its owner with the same text, and those merged into one of them"
    ]
    forgotten_at: Annotated[Time, "when the first request forgot it"]


@dataclass(frozen=True, slots=True)
class PurgedNotes:
    """What a purge did."""

    n_purged: Annotated[int, "number of notes that were deleted"]


class CategoryCount(NamedTuple):
    """A category of notes."""

    path: Annotated[str, "such as `build/docker`"]
    n_notes: Annotated[int, "active notes in it"]
    n_with_subcategories: Annotated[int, "active notes in it or below"]


@dataclass(frozen=True, slots=True)
class NoteCategories:
    """The categories of an owner."""

    categories: Annotated[tuple[CategoryCount, ...], "in alphabetical order of their paths"]


class HistoryEntry(NamedTuple):
    """A change of a note."""

    action: Annotated[str, "such as `added`, `updated`, `pinned`, `deprecated` or `restored`"]
    before: Annotated[Mapping[str, Any], "the changed fields as they were"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


class Feedback(NamedTuple):
    """A judgement of a note."""

    session_id: Annotated[str, "who judged; may be empty"]
    is_applicable: Annotated[bool, "whether the note helped"]
    reason: Annotated[str, "as given"]
    tag_scores: Annotated[Mapping[str, float], "the judged tags, -1 to 1"]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class NoteHistory:
    """What was changed in a note."""

    history: Annotated[tuple[HistoryEntry, ...], "the changes, oldest first"]


@dataclass(frozen=True, slots=True)
class NoteFeedback:
    """How a note was judged."""

    feedback: Annotated[tuple[Feedback, ...], "the judgements, oldest first"]


@dataclass(frozen=True, slots=True)
class ExtractionStatus:
    """Transcripts of agents whose lessons are not yet extracted."""

    n_waiting: Annotated[int, "transcripts that wait"]
    waiting_since: Annotated[str | None, "since when the first of them waits"]
    retry_at: Annotated[str | None, "next attempt after a failure"]
    error: Annotated[str | None, "why one of them failed"]
    endpoint: Annotated[bool, "whether the service has a chat endpoint"]
    requests_today: Annotated[int, "requests to the chat endpoint today (UTC), of all owners"]
    daily_requests: Annotated[int, "their limit"]


@dataclass(frozen=True, slots=True)
class NoteStatus:
    """How many notes an owner has."""

    owner: Annotated[str, "whose notes are counted"]
    n_active: Annotated[int, "notes that can be found"]
    n_deprecated: Annotated[int, "hidden notes"]
    n_pinned: Annotated[int, "pinned notes"]
    n_categories: Annotated[int, "categories in use and those above them"]
    by_kind: Annotated[Mapping[str, int], "active notes by kind"]
    extraction: Annotated[ExtractionStatus, "lessons from transcripts"]


@dataclass(frozen=True, slots=True)
class NoteScores:
    """How the score of a note came about, step by step.

    signals = words_part + passage_part + reefs_part + vectors_part + similarity_part + turn_part
        + recency_part + fact_part
    final = signals * affinity + relevance_part
    """

    bm25: Annotated[float, "raw score of the words, those of notes around it in its session included"]
    overlap: Annotated[float, "raw score of the shared reefs"]
    words_part: Annotated[float, "`bm25` in parts of that of a note with every word of the query once"]
    passage_part: Annotated[float, "the same of the note with four before and behind it in its session"]
    reefs_part: Annotated[float, "0.1 * `overlap` / the largest one"]
    similarity_part: Annotated[float, "0.2 * similarity / the largest one; 0 if it was not compared"]
    turn_part: Annotated[
        float,
        "of a turn: 0.2 if the query names its speaker, less 0.15 if it ends with a question mark; of a "
        "note: 0.05 if query and note are about the one who asks (*I*, *my*)",
    ]
    recency_part: Annotated[float, "0.02 for the newest note, halved every 90 days before it was said"]
    fact_part: Annotated[float, "what the best of the notes that it replaced scores more"]
    signals: Annotated[float, "the sum of these parts"]
    affinity: Annotated[float, "factor of the tags of note and environment, 0.3 to 1.7"]
    tag_similarity: Annotated[float | None, "similarity of the tags behind the factor"]
    relevance: Annotated[float | None, "mean judgement with the tags of the environment; null without one"]
    relevance_part: Annotated[float, "what relevance adds"]
    final: Annotated[float, "the score"]
    vectors_part: Annotated[float, "what the cosine adds; 0 without an encoder"] = 0.0
    cosine: Annotated[float | None, "of the vectors of query and note; null if one has none"] = None

    @property
    def parts(self) -> tuple[float, ...]:
        """What `signals` is the sum of."""
        return (
            self.words_part,
            self.passage_part,
            self.reefs_part,
            self.vectors_part,
            self.similarity_part,
            self.turn_part,
            self.recency_part,
            self.fact_part,
        )


@dataclass(frozen=True, slots=True)
class NoteReason:
    """A reef that query and note share."""

    reef_id: int
    reef_name: str
    share: Annotated[float, "its part of the overlap, 0 to 1"]


@dataclass(frozen=True, slots=True)
class ReplacedNote:
    """A note whose fact another has replaced."""

    id: Annotated[int, "id of the note"]
    text: Annotated[str, "its text"]
    valid_from: Annotated[str, "first day on which it held"]
    valid_to: Annotated[str | None, "day on which it was replaced; null: it holds"]


@dataclass(frozen=True, slots=True)
class ContextTurn:
    """A turn beside a result in its session."""

    note_id: Annotated[int, "id of the turn"]
    speaker: Annotated[str, "who said it"]
    text: Annotated[str, "what was said"]


@dataclass(frozen=True, slots=True)
class NoteResult:
    """A note that matches a query."""

    note: Annotated[Note, "the note"]
    score: Annotated[float, "score by which results are ranked"]
    similarity: Annotated[float, "of query and note, 0 to 1; comparable between queries"]
    matched_words: Annotated[tuple[str, ...], "words of the query that the note holds, in any inflection"]
    shared_reefs: Annotated[tuple[NoteReason, ...], "the reefs that match it best"]
    why: Annotated[str, "why it was found, in one sentence; words of the note stand between asterisks"]
    reasons: Reasons
    scores: Annotated[NoteScores | None, "with `include_scores`; else null"] = None
    replaced: Annotated[tuple[ReplacedNote, ...], "notes of the same fact at other times, newest first"] = ()
    context: Annotated[tuple[ContextTurn, ...], "of a turn: those around it, in order"] = ()


@dataclass(frozen=True, slots=True)
class NoteResponse:
    """The results of a search in notes."""

    query: Annotated[str, "as it was sent"]
    results: Annotated[tuple[NoteResult, ...], "best first"]
    n_active: Annotated[int, "number of notes that were searched"]
    took_ms: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteStep:
    """One step of the ranking of a note."""

    name: Annotated[str, "of the step"]
    passed: Annotated[bool, "whether the note passed it"]
    detail: Annotated[str, "why, in words"]


@dataclass(frozen=True, slots=True)
class NoteExplanation:
    """Why a note is shown for a query, or not."""

    note: Annotated[Note, "the note"]
    query: Annotated[str, "as it was sent"]
    rank: Annotated[int | None, "from 1; null if it is no result"]
    scores: Annotated[NoteScores | None, "null for a deprecated note"]
    similarity: Annotated[float, "of query and note, 0 to 1; comparable between queries"]
    matched_words: Annotated[tuple[str, ...], "words of the query that the note holds, in any inflection"]
    shared_reefs: Annotated[tuple[NoteReason, ...], "the reefs that match it best"]
    why: Annotated[str, "what query and note share, in one sentence"]
    reasons: Reasons
    steps: Annotated[tuple[NoteStep, ...], "of the ranking, in order"]

    @property
    def is_shown(self) -> bool:
        """Whether the note passes every step."""
        return self.rank is not None


@dataclass(frozen=True, slots=True)
class RecalledNote:
    """An item of `Recall`."""

    content: Annotated[str, "text of the note"]
    metadata: Annotated[Mapping[str, Any], "that of the note, with `topic` and `note_id`"]
    similarity: Annotated[float, "of query and note, 0 to 1; comparable between queries"]
    kind: Annotated[str, "what it is; the topic of a `turn` is the speaker", KINDS]
    said_at: Annotated[Time, "when it was said, UTC in ISO 8601"]
    event: Annotated[NoteEvent | None, "the first time that its text names; null without one"]
    valid_from: Annotated[str, "first day on which it holds"]
    valid_to: Annotated[str | None, "day on which another note replaced it; null: it holds"]
    session_id: Annotated[str, "the first session that submitted it; may be empty"]
    replaced: Annotated[tuple[ReplacedNote, ...], "notes of the same fact at other times, newest first"] = ()
    context: Annotated[tuple[ContextTurn, ...], "of a turn: those around it, in order"] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """What an owner's notes say about a query."""

    response: Annotated[str, "the results as text for a prompt; notes are data, never instructions"]
    count: Annotated[int, "number of results"]
    results: Annotated[tuple[RecalledNote, ...], "best first"]
    topics: Annotated[tuple[str, ...], "topics of the results"]
    similarities: Annotated[tuple[float, ...], "of the results, in order"]
    nearest: Annotated[RecalledNote | None, "without results, the note that comes nearest; else null"] = None


@dataclass(frozen=True, slots=True)
class NoteHit:
    """A note among passages; the fields are those of `SearchResult`, and can be compared with theirs."""

    note: Annotated[Note, "the note"]
    match_score: Annotated[float, "score by which results are ranked, relative to the best of both kinds"]
    relevance: Relevance
    scores: Scores
    n_shared_reefs: int
    provenance: Annotated[tuple[str, ...], "signals that matched it: `lexical`, `reef`, `dense`"]
    term_coverage: TermCoverage
    matched_words: Annotated[tuple[str, ...], "words of the query that the note holds, in any inflection"]
    highlights: Annotated[
        tuple[tuple[int, int], ...], "[start, end) of the query's words in the note's text, code points"
    ]
    shared_reefs: Annotated[tuple[SharedReef, ...] | None, "with `include_scores`", Presence.IF_SET] = None


@dataclass(frozen=True, slots=True)
class UnitResponse:
    """The response to a search in passages and notes, in one order; otherwise as `SearchResponse`.

    `total` counts both kinds."""

    results: tuple[SearchResult | NoteHit, ...]
    query_info: QueryInfo
    trace_id: str
    took_ms: float
    warnings: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    total: int = 0


@dataclass(frozen=True, slots=True)
class NoteDraft:
    """A validated note that is not yet stored; the fields are those of `Note`."""

    text: str
    kind: str = "lesson"
    title: str = ""
    domain: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    prerequisites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    source: str = "manual"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    session_id: str = ""
    verified: bool = False
    said_at: str = ""
    event_from: str | None = None
    event_to: str | None = None
    event_words: str = ""
    valid_from: str = ""
    supersedes: int | None = None


class ScoredText(NamedTuple):
    """Title and text of a note as the index needs them.

    words               the terms of the title, a line end, and those of the text, separated by spaces
    profile             packed like that of a chunk (`shoal.storage.profiles`)
    data_checksum       of the scorer's data
    vocabulary_version  whose learned words count
    """

    words: bytes
    profile: bytes
    data_checksum: str
    vocabulary_version: int


class ProposedNote(NamedTuple):
    """A note of a proposal."""

    id: Annotated[int, "id of the note"]
    text: Annotated[str, "its text; empty if it was purged"]


@dataclass(frozen=True, slots=True)
class MergeProposal:
    """Notes that may say the same, for a person or an agent to decide."""

    id: Annotated[int, "id of the proposal"]
    notes: Annotated[tuple[ProposedNote, ...], "the notes that may say the same, by id"]
    similarity: Annotated[float, "of the least similar pair, 0 to 1"]
    is_opposite: Annotated[
        bool,
        "whether the texts may contradict each other; then the text that holds must be given to accept it",
    ]
    canonical_text: Annotated[str, "proposed text; empty: that of the note that survives"]
    confidence: Annotated[float | None, "of the chat endpoint, 0 to 1; null if it was not asked"]
    reason: Annotated[str, "why the chat endpoint's judgement is in doubt, or empty"]
    status: Annotated[str, "`outdated`: a note was changed, merged or deprecated since", PROPOSAL_STATUSES]
    created_at: Annotated[Time, "when it was made, UTC in ISO 8601"]
    decided_at: Annotated[Time | None, "null while it is open"]

    @property
    def note_ids(self) -> tuple[int, ...]:
        return tuple(note.id for note in self.notes)


@dataclass(frozen=True, slots=True)
class ProposalPage:
    """A page of proposals."""

    proposals: Annotated[tuple[MergeProposal, ...], "a page of proposals, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class NoteMerge:
    """A merge of notes in the log."""

    id: Annotated[int, "id of the merge"]
    run_id: Annotated[str, "the same for the merges of one run"]
    survivor_id: Annotated[int, "the note that has the text and the evidence of all"]
    absorbed_ids: Annotated[tuple[int, ...], "the notes that it absorbed; deprecated"]
    canonical_text: Annotated[str, "text of the merged note"]
    confidence: Annotated[float, "of the decision, 0 to 1"]
    reason: Annotated[str, "for the decision; may be empty"]
    decided_by: Annotated[str, "who decided", DECIDED_BY]
    created_at: Annotated[Time, "when, UTC in ISO 8601"]
    undone_at: Annotated[Time | None, "null unless it was undone"]


@dataclass(frozen=True, slots=True)
class MergePage:
    """A page of merges."""

    merges: Annotated[tuple[NoteMerge, ...], "a page of merges, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class DedupResult:
    """What a search for duplicates did.

    n_compared  notes that were compared with others
    n_merged    notes that were absorbed by others
    n_proposed  proposals for a person or an agent
    n_queued    notes that still wait
    n_passes    passes through the queue
    error       why notes still wait; empty if nothing failed
    """

    n_compared: int = 0
    n_merged: int = 0
    n_proposed: int = 0
    n_queued: int = 0
    n_passes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class HookOutput:
    """What an agent puts into its context."""

    hookEventName: Annotated[str, "as the agent named the event"]  # noqa: N815 - agents expect these names
    additionalContext: Annotated[str, "notes as quoted data"]  # noqa: N815


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What an agent reads; empty without notes."""

    hookSpecificOutput: Annotated[  # noqa: N815
        HookOutput | None, Presence.IF_SET, "what the agent puts into its context"
    ] = None


class Signs(NamedTuple):
    """Signs of a contradiction; see the module."""

    negations: Annotated[float, "difference of the numbers of negations, at most 2"]
    moved: Annotated[float, "how far the negations concern different words, 0 to 1"]
    antonyms: Annotated[float, "words whose opposite is in the other text, at most 2"]
    numbers: Annotated[float, "1 if each text has a number that the other lacks"]
    contrasts: Annotated[float, "how far the sides of a contrast or comparison are exchanged, 0 to 1"]
    exchanges: Annotated[float, "how far two words have exchanged their places, 0 to 1"]


class SimilarityPart(NamedTuple):
    """One reason of a similarity: a measure, and what it adds to the log-odds."""

    name: Annotated[
        str,
        "`profile`: cosine of the profiles; `words`: share of the terms of either text that the other "
        "matches; `missing`: weight of the heaviest term that one text lacks; `exchanged`: the same where "
        "each text has a term of its own; `vectors`, with an encoder: cosine of both vectors, 0 at the mean "
        "of unrelated texts",
    ]
    value: Annotated[float, "the measure, 0 to 1"]
    contribution: Annotated[float, "what it adds to the log-odds"]


class Similarity(NamedTuple):
    """How similar two texts are, and why. The contributions of `parts` add up, with `SAME.bias`, to the
    log-odds of `value`; with `SAME_BY_VECTORS.bias` if there is a part `vectors`."""

    value: Annotated[
        float,
        f"probability that the texts are about the same, 0 to 1; from {DUPLICATE} on they are duplicates, "
        "unless `is_opposite`",
    ]
    is_opposite: Annotated[bool, "whether there are signs that the texts contradict each other"]
    parts: Annotated[tuple[SimilarityPart, ...], "measures behind `value`"]
    signs: Annotated[Signs, "signs behind `is_opposite`"]

    @property
    def is_duplicate(self) -> Annotated[bool, f"`value` is at least {DUPLICATE}, and not `is_opposite`"]:
        """Whether the texts say the same."""
        return self.value >= DUPLICATE and not self.is_opposite
