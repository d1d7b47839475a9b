"""What a search token costs, and whether its bearer can time what it may not see.

usage: python -m benchmarks.token_cost DATABASE [--queries 60] [--tokens 1000] [--requests 10000] [--seed 3]

DATABASE is copied. Its documents get rights of 1 to 3 of 200 groups; a token stands for a user in 20 groups.
Prints processor milliseconds of a search (median): without a token, with one token, and with so many
different tokens in turn; and the ratios. The searches of a query follow each other, so that other work on the
machine slows them alike.

Then it asks for documents and chunks that are hidden, and for such that do not exist, in random order, and
prints the area under the curve (AUC) of a classifier by the time of the answer: 0.5 is a coin. Each kind of
request is classified by itself, with the better of both directions.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.search_latency import draw
from shoal.engine import Engine
from shoal.errors import NotFoundError
from shoal.filters.visibility import Viewer
from shoal.index.kernels import use_compiled
from shoal.settings import Settings

N_GROUPS, OF_VIEWER = 200, 20
SET_RIGHTS = "UPDATE documents SET rights = :rights, updated_at = updated_at WHERE id = :id"


def assign(engine: Engine, chance: random.Random) -> None:
    """Give every document rights."""
    with engine.database.write() as transaction:
        for (document_id,) in list(transaction.tuples("SELECT id FROM documents")):
            groups = chance.sample(range(N_GROUPS), chance.randint(1, 3))
            rights = {"allow": [f"group:{each}" for each in groups], "deny": []}
            transaction.execute(SET_RIGHTS, {"id": document_id, "rights": json.dumps(rights)})


def viewers(n: int, chance: random.Random) -> list[Viewer]:
    """Return different viewers."""
    return [
        Viewer(frozenset({f"user:{n}", *(f"group:{g}" for g in chance.sample(range(N_GROUPS), OF_VIEWER))}))
        for n in range(n)
    ]


def cost(engine: Engine, queries: Sequence[str], tokens: Sequence[Viewer]) -> None:
    """Print the processor time of searches."""
    seconds: dict[str, list[float]] = {"without": [], "one token": [], "in turn": []}
    one = engine.seen_by(tokens[0])

    def timed(name: str, search: Callable[[], object]) -> None:
        started = time.process_time()
        search()
        seconds[name].append(time.process_time() - started)

    for query in queries[:3]:
        for searched in (engine, one):
            searched.search(query)
    for number, viewer in enumerate(tokens):
        query = queries[number % len(queries)]
        other = engine.seen_by(viewer)
        timed("without", lambda query=query: engine.search(query))  # type: ignore[misc]
        timed("one token", lambda query=query: one.search(query))  # type: ignore[misc]
        timed("in turn", lambda query=query, other=other: other.search(query))  # type: ignore[misc]
    medians = {name: 1000 * statistics.median(each) for name, each in seconds.items()}
    for name, milliseconds in medians.items():
        print(f"{name:10} {milliseconds:7.2f} ms, {milliseconds / medians['without']:.3f} times")


def classify(foreign: Sequence[float], missing: Sequence[float]) -> float:
    """Return the AUC of the times, by ranks (Mann and Whitney, 1947); of the better direction."""
    values = np.concatenate([foreign, missing])
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    auc = (ranks[: len(foreign)].sum() - len(foreign) * (len(foreign) + 1) / 2) / (
        len(foreign) * len(missing)
    )
    return float(max(auc, 1 - auc))


def timing(engine: Engine, viewer: Viewer, n: int, chance: random.Random) -> None:
    """Print the AUC for each kind of request."""
    seen = engine.seen_by(viewer)
    with engine.database.snapshot() as snapshot:
        all_ids = [row[0] for row in snapshot.tuples("SELECT id FROM documents ORDER BY id")]
        chunks = dict(snapshot.tuples("SELECT id, document_id FROM chunks ORDER BY id"))
    visible = {each.id for each in seen.documents.list(limit=1_000_000).documents}
    deleted = set(chance.sample(all_ids, len(all_ids) // 10)) - visible
    foreign = [each for each in all_ids if each not in visible and each not in deleted]
    gone = [chunk for chunk, document in chunks.items() if document in deleted]
    hidden = [chunk for chunk, document in chunks.items() if document in set(foreign)]
    for document_id in deleted:
        engine.documents.delete(document_id)
    engine.search("warm")
    seen = engine.seen_by(viewer)
    kinds: dict[str, tuple[Callable[[int], object], Sequence[int], Sequence[int]]] = {
        "document": (seen.documents.get, foreign, sorted(deleted)),
        "content": (seen.documents.content, foreign, sorted(deleted)),
        "chunk": (seen.documents.chunk, hidden, gone),
    }
    for name, (ask, of_others, of_none) in kinds.items():
        seconds: tuple[list[float], list[float]] = ([], [])
        for number in range(n + 200):
            which = chance.random() < 0.5
            target = chance.choice(of_none if which else of_others)
            started = time.perf_counter()
            with contextlib.suppress(NotFoundError):
                ask(target)
            if number >= 200:
                seconds[which].append(time.perf_counter() - started)
        print(f"{name:10} AUC {classify(*seconds):.4f} of {n:,} requests")


def main() -> None:
    """Measure a copy of a library."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        # Its index lies in a folder beside it, named after it.
        path = Path(folder) / given.database.name
        shutil.copytree(given.database.parent, folder, dirs_exist_ok=True)
        settings = Settings(database_url=f"sqlite:///{path}", learning=False)
        with Engine(settings=settings) as engine:
            assign(engine, chance)
            use_compiled()
            tokens = viewers(given.tokens, chance)
            n_documents, n_chunks = engine.size()
            seen = engine.seen_by(tokens[0]).documents.list(limit=0).total
            print(f"{n_chunks:,} passages of {n_documents:,} documents; a token sees {seen:,} documents")
            cost(engine, draw(path, given.queries, given.seed), tokens)
            timing(engine, tokens[0], given.requests, chance)


if __name__ == "__main__":
    main()
