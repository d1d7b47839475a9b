"""What search tokens see, compared with libraries that hold only that.

usage: python -m benchmarks.token_model [--requests 200000] [--documents 160] [--seed 7] [--minutes 600]

A library has documents of five tenants, some for several, for everyone or for nobody, of generated sentences,
and some attached to others.
For each tenant, a copy of it loses what the tenant may not see, and is indexed anew. Random requests over all
operations that tokens have then go to the library as the tenant sees it and to the copy. Answers are compared
whole: results, order, scores, counts, facets, warnings, corrections, suggestions, pins, synonyms,
explanations, pages and errors; but not times, trace ids, the text of cursors, and the rights of documents,
which tokens do not see. Prints the differences.

What was analyzed of a text is kept for both. The run ends after some minutes of processor time, with the
number of requests that it made. To count forms of words, a search with a token reads a bounded number of
passages (`shoal.search.visible_forms`); here it may read all.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import gc
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lagoon
from lagoon import ReefScorer
from shoal.engine import Engine
from shoal.errors import ShoalError
from shoal.filters.parsing import make_filter
from shoal.filters.visibility import Viewer
from shoal.index.upkeep import rebuild_index
from shoal.models.queries import UsedSynonym
from shoal.search import visible_forms
from shoal.settings import Settings
from shoal.storage.attachments import Links, write_links
from shoal.words import analysis

TENANTS = ("ann", "bob", "cat", "dan", "eve")
PRINCIPALS = {
    "ann": ("user:ann", "group:red"),
    "bob": ("user:bob", "group:blue"),
    "cat": ("user:cat", "group:red", "group:blue"),
    "dan": ("user:dan",),
    "eve": (),
}
FILTERS: Mapping[str, str | None] = {
    "ann": None,
    "bob": None,
    "cat": "year >= 2012",
    "dan": None,
    "eve": None,
}
RIGHTS: Sequence[Mapping[str, Sequence[str]]] = (
    {},
    {"allow": ["everyone"]},
    {"allow": ["group:red"]},
    {"allow": ["group:blue"]},
    {"allow": ["user:dan", "user:ann"]},
    {"allow": ["group:red", "group:blue"], "deny": ["user:ann"]},
    {"deny": ["group:blue"]},
    {"allow": []},
)
SUBJECTS = (
    "volcano", "bees", "judge", "tide", "pollen", "lava", "contract", "whale", "orchard", "harbour", "basalt",
    "Rotterdam", "Hawaii", "NASA", "runners", "running", "shelves", "x-ray", "crater", "verdict",
)  # fmt: skip
VERBS = ("covers", "finds", "moves", "judges", "follows", "describes", "crossed", "heated")
CODES = tuple(f"E{number}" for number in range(1040, 1060))
"""Identifiers that are near to each other."""
RARE = tuple(f"{head}{tail}" for head in ("zorb", "quend", "mirth", "varn") for tail in ("lat", "lit", "ock"))
"""Words that no dictionary has, near to each other."""
TAGS = ("sea", "fire", "law", "bees")
SHOWN_EVERY = 5_000
KEPT_TEXTS = 4_096
NOW = "2026-06-01T00:00:00Z"
SIMPLE = frozenset((str, int, float, bool, type(None)))
NOT_COMPARED = frozenset({"took_ms", "trace_id", "next_cursor", "allow", "deny"})

Request = tuple[str, dict[str, Any]]


def sentence(chance: random.Random) -> str:
    """Return a generated sentence."""
    words = [
        chance.choice(("The", "A")), chance.choice(SUBJECTS), chance.choice(VERBS), "the",
        chance.choice(SUBJECTS), chance.choice(("near", "of", "and not")), chance.choice(SUBJECTS + RARE),
    ]  # fmt: skip
    if chance.random() < 0.3:
        words.append(chance.choice(CODES))
    return " ".join(words) + "."


def fill(engine: Engine, n: int, chance: random.Random) -> None:
    """Store documents of all tenants."""
    documents = []
    for number in range(n):
        sections = [
            f"## {chance.choice(SUBJECTS)} {chance.choice(VERBS)}\n\n"
            + " ".join(sentence(chance) for _ in range(chance.randint(2, 6)))
            for _ in range(chance.randint(1, 3))
        ]
        documents.append(
            {
                "title": f"{chance.choice(SUBJECTS)} {chance.choice(SUBJECTS)} {number}",
                "content": "\n\n".join(sections),
                "format": "markdown",
                "tags": chance.sample(TAGS, chance.randint(0, 2)),
                "metadata": {
                    "year": chance.randint(2000, 2025),
                    **({"kind": chance.choice("abc")} if chance.random() < 0.7 else {}),
                },
                "source_path": f"{chance.choice(TAGS)}/{chance.choice(SUBJECTS)}-{number}.md",
                **chance.choice(RIGHTS),
            }
        )
    results = engine.ingest_many(documents)
    attach(engine, [result.id for result in results if result.id is not None], chance)
    for word in SUBJECTS:
        targets = chance.sample(range(1, n + 1), 3)
        engine.pins.add(word, targets[:2], hidden=targets[2:])
    for word in RARE[::2]:
        engine.pins.add(word, [chance.randint(1, n)], match="contains")
    for words in zip(SUBJECTS[:4], RARE[:4], RARE[4:8], strict=True):
        engine.vocabulary.synonyms.add(words)


def attach(engine: Engine, ids: Sequence[int], chance: random.Random) -> None:
    """Attach a third of the documents to one or two others."""
    hashes = [engine.documents.get(each).document.content_hash for each in ids]
    with engine.database.write() as transaction:
        for document_id in chance.sample(ids, len(ids) // 3):
            parents = tuple((each, f"file {document_id}") for each in chance.sample(hashes, 2))
            links = Links(parents[: chance.randint(1, 2)], is_held=False)
            write_links(transaction, document_id, links)


@contextmanager
def libraries(n: int, seed: int, *, scorer: Any = None) -> Iterator[dict[str, tuple[Engine, Engine]]]:
    """Open, for each tenant, the library as it sees it, and the library that holds only that."""
    visible_forms.MAX_READ = 10 * n
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        path = Path(folder) / "whole.db"
        whole = opened.enter_context(_open(path, scorer))
        fill(whole, n, random.Random(seed))
        pairs = {}
        for tenant in TENANTS:
            viewer = Viewer(frozenset(PRINCIPALS[tenant]), make_filter(FILTERS[tenant]))
            seen = whole.seen_by(viewer)
            own = Path(folder) / tenant / "own.db"
            own.parent.mkdir()
            whole.maintenance.backup(own)
            copy = opened.enter_context(_open(own, scorer))
            visible = {document.id for document in _all(seen)}
            for document in _all(copy):
                if document.id not in visible:
                    copy.documents.delete(document.id)
            for pin in copy.pins.list(limit=1_000).pins:
                if not pin.pinned and not pin.hidden:
                    copy.pins.delete(pin.id)
            rebuild_index(copy.database)
            pairs[tenant] = seen, copy
        yield pairs


def _open(path: Path, scorer: Any) -> Engine:
    return Engine(settings=Settings(database_url=f"sqlite:///{path}", learning=False), scorer=scorer)


def _all(engine: Engine) -> Sequence[Any]:
    return engine.documents.list(limit=10_000).documents


def query(chance: random.Random) -> str:
    """Return a query: words, some with typing errors, phrases, exclusions, codes, beginnings of titles."""
    pieces = []
    for _ in range(chance.randint(1, 4)):
        word = chance.choice(SUBJECTS + RARE + CODES + VERBS)
        kind = chance.random()
        if kind < 0.15 and len(word) > 4:
            place = chance.randrange(1, len(word))
            word = word[:place] + chance.choice("aeiourst") + word[place + 1 :]
        elif kind < 0.22:
            word = f"-{word}"
        elif kind < 0.3:
            word = f'"{word} {chance.choice(VERBS)}"'
        elif kind < 0.34:
            word = f"title:{word}"
        pieces.append(word)
    return " ".join(pieces)


def arguments(chance: random.Random) -> dict[str, Any]:
    """Return random arguments of a search."""
    given: dict[str, Any] = {"top_k": chance.choice((1, 3, 10, 50))}
    choices: Sequence[tuple[float, Callable[[], dict[str, Any]]]] = (
        (0.3, lambda: {"mode": chance.choice(("hybrid", "lexical", "reef"))}),
        (0.4, lambda: {"include_scores": True}),
        (0.2, lambda: {"tags": chance.sample((*TAGS, "fir"), 2)}),
        (0.2, lambda: {"filter": _filter(chance)}),
        (0.1, lambda: {"filters": {"document_ids": [chance.randint(1, 200) for _ in range(5)]}}),
        (
            0.1,
            lambda: {
                "filters": {"source_path": [f"sea/{chance.choice(SUBJECTS)}-{chance.randint(0, 160)}.md"]}
            },
        ),
        (0.15, lambda: {"facets": ["tags", "year:5", "kind", "section"]}),
        (0.15, lambda: {"group_by": chance.choice(("document", "parent"))}),
        (0.1, lambda: {"sort": [chance.choice(("-year", "title", "kind", "nokey"))]}),
        (0.1, lambda: {"boosts": [{"filter": _filter(chance), "weight": 0.3}]}),
        (0.1, lambda: {"decay": {"field": "created", "half_life_days": 30, "weight": 0.1, "now": NOW}}),
        (0.2, lambda: {"prefix": True}),
        (0.1, lambda: {"fold_similar": True}),
        (0.1, lambda: {"max_per_document": 1}),
        (0.1, lambda: {"min_relevance": 0.4}),
        (0.1, lambda: {"context": 1}),
        (0.1, lambda: {"shortlist": 3}),
    )
    for chosen, make in choices:
        if chance.random() < chosen:
            given |= make()
    return given


def _filter(chance: random.Random) -> str:
    return chance.choice(
        (
            "year > 2010", "kind = a", "NOT kind = b", "tags = sea OR year < 2005", "kidn = a", "kind EXISTS",
            "folder = sea", f"section CONTAINS {chance.choice(SUBJECTS)}", "year = 1", "title STARTS WITH v",
        )
    )  # fmt: skip


def request(chance: random.Random) -> Request:
    """Return a random operation with its arguments."""
    document_id, chunk_id = chance.randint(1, 200), chance.randint(1, 700)
    kinds: Sequence[Callable[[], Request]] = (
        *(lambda: ("search", {"query": query(chance), **arguments(chance)}),) * 6,
        lambda: (
            "search_many",
            {"searches": [query(chance) for _ in range(3)], "fused": chance.random() < 0.5},
        ),
        lambda: ("pages", {"query": query(chance), "top_k": chance.randint(1, 3)}),
        lambda: ("retrieve", {"query": query(chance), "top_k": 4}),
        lambda: (
            "facets",
            {"facets": ["tags", "kind", "year:10", "section", "reef"], "filter": _filter(chance)},
        ),
        lambda: ("suggest", {"q": query(chance)[: chance.randint(1, 8)]}),
        lambda: ("explain", {"query": query(chance), "document_id": document_id}),
        lambda: ("explain", {"query": query(chance), "chunk_id": chunk_id}),
        lambda: ("similar", {"chunk_id": chunk_id}),
        lambda: (
            "documents.list",
            {"filter": _filter(chance) if chance.random() < 0.5 else None, "limit": 20},
        ),
        lambda: ("documents.list", {"tag": chance.choice(TAGS), "q": "v", "sort": "-created"}),
        lambda: ("documents.get", {"document_id": document_id}),
        lambda: ("documents.content", {"document_id": document_id}),
        lambda: ("documents.chunks", {"document_id": document_id, "limit": 3}),
        lambda: ("documents.chunk", {"chunk_id": chunk_id, "context": 1}),
        lambda: ("documents.file", {"document_id": document_id}),
    )
    return chance.choice(kinds)()


def kept_scorer() -> lagoon.ReefScorer:
    """Return a scorer for all libraries that keeps what it found in texts, as `analyze_words` then does."""
    analysis.analyze_words = functools.lru_cache(KEPT_TEXTS)(analysis.analyze_words)
    scorer = lagoon.load()
    scorer.score = functools.lru_cache(KEPT_TEXTS)(scorer.score)  # type: ignore[method-assign]
    relate = functools.lru_cache(KEPT_TEXTS)(
        lambda forms, others, chances: ReefScorer.relate_forms(scorer, forms, others, dict(chances))
    )
    scorer.relate_forms = lambda forms, others, chances: relate(  # type: ignore[method-assign]
        tuple(forms), tuple(others), tuple(chances.items())
    )
    return scorer


def answer(engine: Engine, asked: Request) -> Any:
    """Return the answer of an engine as plain values; of an error its class and message."""
    name, given = asked
    if name == "pages":
        return plain(list(pages(engine, given)))
    target: Any = engine
    for part in name.split("."):
        target = getattr(target, part)
    try:
        return plain(target(**given))
    except ShoalError as error:
        return type(error).__name__, str(error)


def pages(engine: Engine, given: dict[str, Any]) -> Iterator[Any]:
    """Yield the first pages of a search, by cursors."""
    cursor = None
    for _ in range(3):
        response = engine.search(**given, cursor=cursor)
        yield response
        cursor = response.next_cursor
        if cursor is None:
            return


def plain(value: Any) -> Any:
    """Return a value without what is not compared: synonyms without passages are not for viewers."""
    kind = type(value)
    if kind in SIMPLE:
        return value
    names = _compared_fields(kind)
    if names:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items() if key not in NOT_COMPARED}
    if isinstance(value, list | tuple | frozenset | set):
        return [plain(each) for each in value if not (isinstance(each, UsedSynonym) and not each.n_chunks)]
    return str(value) if isinstance(value, ShoalError) else value


@functools.cache
def _compared_fields(kind: type) -> Sequence[str]:
    """The compared fields of a record; none for a type that is no record."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "_fields", ()))
    return [name for name in names if name not in NOT_COMPARED]


def difference(left: Any, right: Any, path: str = "") -> str | None:
    """Return where two plain values differ first."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        found = (difference(left[key], right[key], f"{path}.{key}") for key in left)
        return next(filter(None, found), None)
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return next(filter(None, (difference(*each, f"{path}[{i}]") for i, each in pairs)), None)
    return None if left == right else f"{path}: {str(left)[:150]!r} and {str(right)[:150]!r}"


def compare(
    pairs: Mapping[str, tuple[Engine, Engine]], n: int, seed: int, seconds: float = math.inf
) -> tuple[list[str], Counter[str], Counter[str]]:
    """Return the differences of random requests, with the number of requests of each operation, and how many
    of them were answered. `seconds`: of processor time, after which no further request is made."""
    chance, until = random.Random(seed), time.process_time() + seconds
    found, asked_for, answered = [], Counter[str](), Counter[str]()
    for number in range(n):
        if time.process_time() > until:
            break
        if number and number % SHOWN_EVERY == 0:
            print(f"{len(found):,} differences in {number:,} requests", file=sys.stderr, flush=True)
        tenant = chance.choice(TENANTS)
        asked = request(chance)
        seen, own = (answer(engine, asked) for engine in pairs[tenant])
        asked_for[asked[0]] += 1
        answered[asked[0]] += isinstance(seen, dict | list | str)
        if seen != own:
            found.append(f"{tenant}: {asked}{difference(seen, own)}")
    return found, asked_for, answered


def main() -> None:
    """Compare, and print the differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--documents", type=int, default=160)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=600)
    given = parser.parse_args()
    with libraries(given.documents, given.seed, scorer=kept_scorer()) as pairs:
        # What is kept until the end is not to be looked through again and again.
        gc.freeze()
        found, asked_for, answered = compare(pairs, given.requests, given.seed, 60 * given.minutes)
    for name, n in sorted(asked_for.items()):
        print(f"{name:20} {n:8,} requests, {answered[name]:8,} answered")
    print(*found[:20], sep="\n")
    print(f"{len(found):,} differences in {asked_for.total():,} requests")


if __name__ == "__main__":
    main()
