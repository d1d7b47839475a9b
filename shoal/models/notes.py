"""The values of notes: what is stored of one, what a search returns, and how a score came about.

All dataclasses are frozen. Times are UTC in ISO 8601 (`2026-01-31T00:00:00.000Z`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.errors import NoteError
from shoal.models.query_info import QueryInfo
from shoal.models.reefs import Label
from shoal.models.scores import Scores, SharedReef
from shoal.models.search import SearchResult

KINDS = ("lesson", "atom", "knowledge")
SOURCES = ("manual", "agent", "extraction", "import")
PINNED_BY = ("person", "tags", "relevance")


class TagRelevance(NamedTuple):
    """How relevant a note was where a tag holds: a moving average, -1 to 1, and the judgements behind it."""

    score: float
    n_positive: int
    n_negative: int

    @property
    def n_evals(self) -> int:
        return self.n_positive + self.n_negative


class TagSetMatches(NamedTuple):
    """How often a note was shown in environments with exactly these tags, in alphabetical order."""

    tags: tuple[str, ...]
    n_matches: int


@dataclass(frozen=True, slots=True)
class Note:
    """A stored note.

    kind               one of KINDS
    tags, categories   in alphabetical order; a category is a path such as `build/docker`
    prerequisites      `os`, `repos`, `paths`, `mcp_servers`, each with texts; a note is shown only where they
                       hold
    verified           a person or a second source confirmed it
    pinned_by          `person`, `tags` or `relevance`; None if it is not pinned
    pin_tags           the pin counts where all of these hold
    occurrence_count   how often the text was submitted
    times_matched      how often it was shown
    deprecated_at      None if the note is active
    merged_into        the note that absorbed it
    repo_matches       how often it was shown, by repository
    sessions           the sessions that submitted it
    labels             the reefs that title and text are about, most probable first
    change_number      number of its last change among all changes of notes
    """

    id: int
    owner: str
    kind: str
    title: str
    text: str
    domain: str
    tags: tuple[str, ...]
    categories: tuple[str, ...]
    prerequisites: Mapping[str, tuple[str, ...]]
    source: str
    metadata: Mapping[str, Any]
    verified: bool
    pinned_by: str | None
    pin_tags: tuple[str, ...]
    occurrence_count: int
    times_matched: int
    last_matched: str | None
    deprecated_at: str | None
    deprecated_reason: str | None
    merged_into: int | None
    repo_matches: Mapping[str, int]
    tag_set_matches: tuple[TagSetMatches, ...]
    tag_relevance: Mapping[str, TagRelevance]
    sessions: tuple[str, ...]
    labels: tuple[Label, ...]
    created_at: str
    updated_at: str
    change_number: int

    @property
    def pinned(self) -> bool:
        return self.pinned_by is not None

    @property
    def is_active(self) -> bool:
        return self.deprecated_at is None


@dataclass(frozen=True, slots=True)
class SimilarNote:
    """An active note that is similar to a new one. `similarity`: 0 to 1; `is_opposite`: the texts may
    contradict each other."""

    id: int
    text: str
    similarity: float
    is_opposite: bool


@dataclass(frozen=True, slots=True)
class AddedNote:
    """A submitted note. `is_duplicate`: the same text was stored already, and its count went up."""

    note: Note
    is_duplicate: bool
    similar: tuple[SimilarNote, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteOutcome:
    """What became of one of several notes: an id, or the reason and the invalid field."""

    note_id: int | None
    is_duplicate: bool = False
    similar: tuple[SimilarNote, ...] = ()
    field: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class NoteOutcomes:
    """What became of several notes, in order."""

    results: tuple[NoteOutcome, ...]
    n_added: int
    n_duplicates: int
    n_refused: int

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
    """A page of a listing. `total`: number of notes on all pages."""

    notes: tuple[Note, ...]
    total: int


class CategoryCount(NamedTuple):
    """A category, the number of its active notes, and that of its subcategories' and its own."""

    path: str
    n_notes: int
    n_with_subcategories: int


class HistoryEntry(NamedTuple):
    """A change of a note. `before`: the fields that changed, as they were."""

    action: str
    before: Mapping[str, Any]
    created_at: str


class Feedback(NamedTuple):
    """A judgement of a note. `tag_scores`: -1 to 1 by tag."""

    session_id: str
    is_applicable: bool
    reason: str
    tag_scores: Mapping[str, float]
    created_at: str


@dataclass(frozen=True, slots=True)
class NoteScores:
    """How the score of a note came about, step by step.

        final = (words_part + reefs_part) * affinity + relevance_part

    bm25, overlap      raw scores of both signals; 0 without a match
    words_rank, reefs_rank   rank in each signal among the owner's active notes, from 0; equal raw scores have
                       equal ranks; None without a match
    k                  the constant of rank fusion
    words_part, reefs_part   1 / (k + rank) of each signal; 0 without a match
    fused              the sum of both parts
    affinity           factor of the tags of note and environment, 0.3 to 1.7; 1 without tags to compare
    tag_similarity     the cosine behind the factor; None if there is nothing to compare
    relevance          mean relevance of the environment's tags that the note was judged in; None without
                       judgements
    relevance_part     what relevance adds
    """

    bm25: float
    overlap: float
    words_rank: int | None
    reefs_rank: int | None
    k: int
    words_part: float
    reefs_part: float
    fused: float
    affinity: float
    tag_similarity: float | None
    relevance: float | None
    relevance_part: float
    final: float


@dataclass(frozen=True, slots=True)
class NoteReason:
    """A reef that query and note share. `share`: its part of the overlap, 0 to 1."""

    reef_id: int
    reef_name: str
    share: float


@dataclass(frozen=True, slots=True)
class NoteResult:
    """A note that matches a query.

    score           sort key
    similarity      of query and note, 0 to 1
    matched_words   words of the query that are in title or text, in any inflection
    shared_reefs    the reefs that contribute most to the overlap
    scores          on request
    """

    note: Note
    score: float
    similarity: float
    matched_words: tuple[str, ...]
    shared_reefs: tuple[NoteReason, ...]
    scores: NoteScores | None = None


@dataclass(frozen=True, slots=True)
class NoteResponse:
    """The results of a search in notes, best first. `n_active`: notes that were searched."""

    query: str
    results: tuple[NoteResult, ...]
    n_active: int
    took_ms: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteStep:
    """One step of the ranking of a note: `name`, whether the note passed it, and the reason in words."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class NoteExplanation:
    """Why a note is shown for a query, or not.

    rank    among the results, from 1; None if a step leaves it out or no signal matches it
    scores  None for a deprecated note
    steps   in the order of the ranking
    """

    note: Note
    query: str
    rank: int | None
    scores: NoteScores | None
    similarity: float
    matched_words: tuple[str, ...]
    shared_reefs: tuple[NoteReason, ...]
    steps: tuple[NoteStep, ...]

    @property
    def is_shown(self) -> bool:
        """Whether the note passes every step."""
        return self.rank is not None


@dataclass(frozen=True, slots=True)
class RecalledNote:
    """An item of `Recall`. `metadata` has the note's own fields, and `topic` and `note_id`."""

    content: str
    metadata: Mapping[str, Any]
    similarity: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What an owner's notes say about a query.

    response      the same as text, for a prompt
    topics        distinct topics of the results, in their order
    similarities  of the results, in their order
    """

    response: str
    count: int
    results: tuple[RecalledNote, ...]
    topics: tuple[str, ...]
    similarities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class NoteHit:
    """A note among passages; the fields are those of `SearchResult`.

    match_score     sort key
    relevance       0 to 1, as that of a passage with this title and text
    shared_reefs    on request: reasons first
    matched_words   words of the query that are in title or text, in any inflection
    """

    note: Note
    match_score: float
    relevance: float
    scores: Scores
    n_shared_reefs: int
    provenance: tuple[str, ...]
    term_coverage: float | None
    matched_words: tuple[str, ...]
    highlights: tuple[tuple[int, int], ...]
    shared_reefs: tuple[SharedReef, ...] | None = None


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


DECIDED_BY = ("person", "agent", "endpoint")
PROPOSAL_STATUSES = ("open", "merged", "rejected", "outdated")


class ProposedNote(NamedTuple):
    """A note of a proposal. `text` is empty if the note was purged."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class MergeProposal:
    """Notes that may say the same, for a person or an agent to decide.

    similarity      0 to 1, of the least similar pair
    is_opposite     the texts may contradict each other; a merge must then give the text that holds
    canonical_text  proposed text; empty: that of the note that survives
    confidence      of the endpoint that judged it, 0 to 1; None if nobody did
    reason          why it is proposed and not merged
    status          one of PROPOSAL_STATUSES; `outdated`: a note was changed, merged or deprecated since
    """

    id: int
    notes: tuple[ProposedNote, ...]
    similarity: float
    is_opposite: bool
    canonical_text: str
    confidence: float | None
    reason: str
    status: str
    created_at: str
    decided_at: str | None

    @property
    def note_ids(self) -> tuple[int, ...]:
        return tuple(note.id for note in self.notes)


@dataclass(frozen=True, slots=True)
class ProposalPage:
    """A page of proposals. `total`: number on all pages."""

    proposals: tuple[MergeProposal, ...]
    total: int


@dataclass(frozen=True, slots=True)
class NoteMerge:
    """A merge of notes in the log.

    run_id       the same for the merges of one run
    survivor_id  the note that has the canonical text and the evidence of all
    decided_by   `person`, `agent` or `endpoint`
    undone_at    None unless it was undone
    """

    id: int
    run_id: str
    survivor_id: int
    absorbed_ids: tuple[int, ...]
    canonical_text: str
    confidence: float
    reason: str
    decided_by: str
    created_at: str
    undone_at: str | None


@dataclass(frozen=True, slots=True)
class MergePage:
    """A page of merges. `total`: number on all pages."""

    merges: tuple[NoteMerge, ...]
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
