"""How well memory finds what was said: LoCoMo, long conversations with questions and their evidence.

usage: python -m benchmarks.locomo FOLDER [--conversations 26,41,43] [--encoder NAME] [--ways WAY...]

FOLDER has a file NUMBER.json for each conversation: `turns` with id, session, date, speaker and text, and
`questions` with category and ids of evidence (`../shared/collections/locomo`). Every turn is a note of the
session, `SPEAKER: TEXT`; for `turns`, it is remembered as a turn. Questions of the categories 1 to 4 can be
answered, those of category 5 cannot.

For each conversation and way, and for all: the mean share of the evidence among the first ten results
(recall@10), the mean reciprocal rank of the first evidence (MRR), the share within 2,000 characters of
results (for `turns`, in one answer of `recall` with `max_chars`), and the median and 95th percentile of
milliseconds.

    search     notes.search                     recall   notes.recall with a threshold of 0
    units      Engine.search_units, notes only
    turns      notes.recall over remembered turns, with a threshold of 0
    documents  Engine.search over one document a session; a passage counts for all of its turns
    bm25s      the library of this name, if it is installed, with its English stop words

Then what the default threshold of recall over remembered turns answers: of the answerable questions, of those
of category 5, of the questions of another conversation; and how well the best similarity separates the first
from either (area under the curve).
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from shoal import Engine
from shoal.settings import Settings

TOP_K = 10
BUDGET = 2_000
UNANSWERABLE = 5
EVIDENCE = re.compile(r"D\d+:\d+")
WAYS = ("search", "recall", "units", "turns", "documents", "bm25s")
SAID_AT = "%I:%M %p on %d %B, %Y"


class Question(NamedTuple):
    """A question and its evidence, as numbers of turns."""

    text: str
    category: int
    evidence: frozenset[int]


class Conversation(NamedTuple):
    """A conversation: the texts of its turns, the session of each, and its questions."""

    name: str
    turns: tuple[str, ...]
    speakers: tuple[str, ...]
    said_at: tuple[str, ...]
    sessions: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def answerable(self) -> list[Question]:
        return [each for each in self.questions if each.category != UNANSWERABLE and each.evidence]


def said_at(text: str) -> str:
    return datetime.strptime(text, SAID_AT).replace(tzinfo=UTC).isoformat()


def read_conversation(path: Path) -> Conversation:
    stored = json.loads(path.read_text("utf-8"))
    numbers = {turn["_id"]: number for number, turn in enumerate(stored["turns"])}
    return Conversation(
        path.stem,
        tuple(f"{turn['speaker']}: {turn['text']}" for turn in stored["turns"]),
        tuple(turn["speaker"] for turn in stored["turns"]),
        tuple(said_at(turn["date"]) for turn in stored["turns"]),
        tuple(str(turn["session"]) for turn in stored["turns"]),
        tuple(
            Question(
                each["text"],
                each["category"],
                frozenset(
                    numbers[name] for name in EVIDENCE.findall(" ".join(each["evidence"])) if name in numbers
                ),
            )
            for each in stored["questions"]
        ),
    )


class Passage(NamedTuple):
    """A result: the turns that it shows, and its characters."""

    turns: frozenset[int]
    n_chars: int


Find = Callable[[str], Sequence[Passage]]


class Memory:
    """A conversation in a library of its own, in each of the ways that it can be searched."""

    def __init__(self, conversation: Conversation, folder: Path, encoder: str) -> None:
        self.conversation = conversation
        database = f"sqlite:///{folder / conversation.name}.db"
        given = {"encoder": encoder, "embed": True} if encoder else {}
        self.engine = Engine(settings=Settings(database_url=database, **given))
        self.notes = self.engine.notes.of("someone")
        items = [
            {"text": text, "session_id": session}
            for text, session in zip(conversation.turns, conversation.sessions, strict=True)
        ]
        self._turns_of: dict[int, set[int]] = {}
        for number, added in enumerate(self.notes.add_many(items)):
            assert not isinstance(added, Exception), added
            self._turns_of.setdefault(added.note.id, set()).add(number)
        self._sessions: dict[str, tuple[list[int], list[int]]] = {}
        self.remembered = self.engine.notes.of("remembered")
        self._turn_of: dict[int, int] = {}
        self.remember()
        self.engine.notes.embed()

    def ways(self, names: Sequence[str]) -> Iterator[tuple[str, Find]]:
        """The ways to search, one at a time: documents come last, since the library of notes has none."""
        ways: dict[str, Find] = {"search": self.search, "recall": self.recall, "units": self.units}
        ways["turns"] = self.turns
        for name in names:
            if name in ways:
                yield name, ways[name]
        if "bm25s" in names and find_spec("bm25s"):
            yield "bm25s", self.bm25s()
        if "documents" in names:
            self.ingest()
            yield "documents", self.documents

    def _note(self, note_id: int, text: str) -> Passage:
        return Passage(frozenset(self._turns_of[note_id]), len(text))

    def search(self, question: str) -> list[Passage]:
        results = self.notes.search(question, top_k=TOP_K).results
        return [self._note(each.note.id, each.note.text) for each in results]

    def recall(self, question: str) -> list[Passage]:
        results = self.notes.recall(question, top_k=TOP_K, threshold=0.0).results
        return [self._note(each.metadata["note_id"], each.content) for each in results]

    def units(self, question: str) -> list[Passage]:
        found = self.engine.search_units(question, owner="someone", units=["note"], top_k=TOP_K)
        return [self._note(each.note.id, each.note.text) for each in found.results]  # type: ignore[union-attr]

    def remember(self) -> None:
        """Store each turn as a turn of its session."""
        conversation = self.conversation
        columns = (conversation.speakers, conversation.turns, conversation.said_at, conversation.sessions)
        items = [
            {
                "speaker": speaker,
                "content": text.removeprefix(f"{speaker}: "),
                "said_at": said_at,
                "session_id": session,
            }
            for speaker, text, said_at, session in zip(*columns, strict=True)
        ]
        for number, added in enumerate(self.remembered.remember(items)):
            assert not isinstance(added, Exception), added
            self._turn_of[added.note.id] = number

    def turns(self, question: str) -> list[Passage]:
        return self._remembered(question, top_k=TOP_K, context_turns=0)

    def turns_in_budget(self, question: str) -> list[Passage]:
        return self._remembered(question, max_chars=BUDGET)

    def _remembered(self, question: str, **arguments: Any) -> list[Passage]:
        results = self.remembered.recall(question, threshold=0.0, **arguments).results
        shown = [[each.metadata["note_id"], *(turn.note_id for turn in each.context)] for each in results]
        turns = [frozenset(self._turn_of[note_id] for note_id in ids) for ids in shown]
        return [
            Passage(own, len(each.content) + sum(len(turn.text) for turn in each.context))
            for own, each in zip(turns, results, strict=True)
        ]

    def ingest(self) -> None:
        """Store each session as a document."""
        numbered = enumerate(zip(self.conversation.sessions, self.conversation.turns, strict=True))
        for session, turns in itertools.groupby(numbered, key=lambda each: each[1][0]):
            texts, numbers, starts, start = [], [], [], 0
            for number, (_, text) in turns:
                numbers.append(number)
                starts.append(start)
                texts.append(text)
                start += len(text) + 2
            path = f"session {session}"
            self.engine.ingest(content="\n\n".join(texts), source_path=path)
            self._sessions[path] = numbers, starts

    def documents(self, question: str) -> list[Passage]:
        passages = []
        for result in self.engine.search(question, top_k=TOP_K).results:
            numbers, starts = self._sessions[result.source_path]
            first = bisect.bisect_right(starts, result.start_char) - 1
            last = bisect.bisect_left(starts, result.end_char)
            passages.append(Passage(frozenset(numbers[first:last]), result.end_char - result.start_char))
        return passages

    def bm25s(self) -> Find:
        import bm25s  # type: ignore[import-not-found]

        retriever = bm25s.BM25()
        retriever.index(bm25s.tokenize(self.conversation.turns, show_progress=False), show_progress=False)

        def find(question: str) -> list[Passage]:
            tokens = bm25s.tokenize(question, show_progress=False)
            found, _ = retriever.retrieve(tokens, k=TOP_K, show_progress=False)
            return [Passage(frozenset([n]), len(self.conversation.turns[n])) for n in found[0].tolist()]

        return find


class Scores(NamedTuple):
    """Of one question."""

    recall: float
    reciprocal_rank: float
    in_budget: float
    milliseconds: float


def judge(question: Question, find: Find, find_in_budget: Find | None = None) -> Scores:
    started = time.perf_counter()
    passages = find(question.text)[:TOP_K]
    took = 1000 * (time.perf_counter() - started)
    found: set[int] = set()
    in_budget: set[int] = set()
    rank, n_chars = 0, 0
    for number, passage in enumerate(passages, 1):
        found |= passage.turns
        n_chars += passage.n_chars
        if n_chars <= BUDGET:
            in_budget |= passage.turns
        if not rank and passage.turns & question.evidence:
            rank = number
    n = len(question.evidence)
    if find_in_budget is not None:
        in_budget = set[int]().union(*(passage.turns for passage in find_in_budget(question.text)))
    return Scores(
        len(found & question.evidence) / n,
        1 / rank if rank else 0.0,
        len(in_budget & question.evidence) / n,
        took,
    )


def line(name: str, way: str, scores: Sequence[Scores]) -> str:
    recall, rank, in_budget, _ = (statistics.fmean(column) for column in zip(*scores, strict=True))
    times = sorted(each.milliseconds for each in scores)
    return (
        f"{name:<6} {way:<10} {len(scores):4} questions  recall@{TOP_K} {recall:.3f}  MRR {rank:.3f}  "
        f"in {BUDGET:,} characters {in_budget:.3f}  "
        f"p50 {statistics.median(times):.1f} ms, p95 {times[int(0.95 * len(times))]:.1f} ms"
    )


def area(higher: Sequence[float], lower: Sequence[float]) -> float:
    """The probability that one of the first is above one of the second; ties count half."""
    ordered = sorted(lower)
    below = sum(bisect.bisect_left(ordered, each) + bisect.bisect_right(ordered, each) for each in higher)
    return below / 2 / len(higher) / len(ordered)


class Similarities(NamedTuple):
    """The best similarity of each question, and whether the default of recall answers it."""

    values: list[float]
    is_answered: list[bool]

    @property
    def share(self) -> str:
        return f"{statistics.fmean(self.is_answered):.0%} of {len(self.values)}"


def similarities(memory: Memory, questions: Sequence[str]) -> Similarities:
    best = [memory.remembered.recall(text, threshold=0.0) for text in questions]
    answered = [bool(memory.remembered.recall(text).results) for text in questions]
    return Similarities([max(found.similarities, default=0.0) for found in best], answered)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--conversations", help="names of files, with commas; default: all")
    parser.add_argument("--encoder", default="", help="as in SHOAL_ENCODER")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    options: Any = parser.parse_args()
    chosen = options.conversations.split(",") if options.conversations else None
    paths = [path for path in sorted(options.folder.glob("*.json")) if chosen is None or path.stem in chosen]
    if not paths:
        parser.error(f"no conversations in {options.folder}")
    conversations = [read_conversation(path) for path in paths]
    others = [read_conversation(path) for path in sorted(options.folder.glob("*.json"))]
    by_way: dict[str, list[Scores]] = {}
    answerable, adversarial, foreign = (Similarities([], []) for _ in range(3))
    with tempfile.TemporaryDirectory() as scratch:
        for conversation in conversations:
            memory = Memory(conversation, Path(scratch), options.encoder)
            other = others[([each.name for each in others].index(conversation.name) + 1) % len(others)]
            kinds = (
                (answerable, [each.text for each in conversation.answerable]),
                (adversarial, [e.text for e in conversation.questions if e.category == UNANSWERABLE]),
                (foreign, [each.text for each in other.answerable]),
            )
            for kept, questions in kinds:
                found = similarities(memory, questions)
                kept.values.extend(found.values)
                kept.is_answered.extend(found.is_answered)
            for way, find in memory.ways(options.ways):
                in_budget = memory.turns_in_budget if way == "turns" else None
                scores = [judge(question, find, in_budget) for question in conversation.answerable]
                by_way.setdefault(way, []).extend(scores)
                print(line(conversation.name, way, scores), flush=True)
            memory.engine.close()
    for way, scores in by_way.items():
        print(line("all", way, scores))
    print(
        f"recall at its default answers {answerable.share} answerable questions, {adversarial.share} "
        f"unanswerable ones, {foreign.share} about another conversation"
    )
    print(
        f"area under the curve: answerable against unanswerable "
        f"{area(answerable.values, adversarial.values):.3f},"
        f" against another conversation {area(answerable.values, foreign.values):.3f}"
    )


if __name__ == "__main__":
    main()
