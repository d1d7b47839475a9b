"""What a search token costs, and whether its bearer can time what it may not see.

usage: python -m benchmarks.token_cost DATABASE [--queries 60] [--tokens 1000] [--requests 10000]

DATABASE is copied. Its documents get rights of 1 to 3 of 200 groups; a token stands for a user in 20 groups.
Prints processor milliseconds of a search (median): without a token, with one token, and with so many
different tokens in turn; and the ratios. The searches of a query follow each other, so that other work on the
machine slows them alike.

Then it starts a service and asks it for documents and chunks that are hidden, and for such that do not exist,
in random order. It prints the area under the curve (AUC) of a classifier by the wall time of the answer: 0.5
is a coin. Each kind of request is classified by itself, and all together by their ranks within their kind,
with the better of both directions. `--queries 0` does this alone.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.search_latency import draw
from shoal.access.key_store import KeyStore
from shoal.collections.catalog import Catalog
from shoal.engine import Engine
from shoal.filters.visibility import Viewer
from shoal.index.kernels import use_compiled
from shoal.settings import Settings
from shoal.support.search_tokens import make_token, new_pair

N_GROUPS, OF_VIEWER = 200, 20
WARM = 200
"""Requests before the first that counts."""
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


class Targets(NamedTuple):
    """Ids of documents and of chunks: those that a viewer does not see, and those that do not exist any more,
    from the same range."""

    foreign: Sequence[int]
    missing: Sequence[int]
    foreign_chunks: Sequence[int]
    missing_chunks: Sequence[int]


def targets(engine: Engine, viewer: Viewer, chance: random.Random) -> Targets:
    """Delete a tenth of the documents that a viewer does not see, and return what it does not get."""
    with engine.database.snapshot() as snapshot:
        all_ids = [row[0] for row in snapshot.tuples("SELECT id FROM documents ORDER BY id")]
        chunks = dict(snapshot.tuples("SELECT id, document_id FROM chunks ORDER BY id"))
    visible = {each.id for each in engine.seen_by(viewer).documents.list(limit=1_000_000).documents}
    deleted = set(chance.sample(all_ids, len(all_ids) // 10)) - visible
    foreign = set(all_ids) - visible - deleted
    for document_id in deleted:
        engine.documents.delete(document_id)
    engine.search("warm")
    return Targets(
        sorted(foreign),
        sorted(deleted),
        [chunk for chunk, document in chunks.items() if document in foreign],
        [chunk for chunk, document in chunks.items() if document in deleted],
    )


def timing(address: str, token: str, ids: Targets, n: int, chance: random.Random) -> None:
    """Ask a service for documents and chunks that it does not show. Print the AUC of each kind of request,
    the medians of both classes, and how many different answers there are, but for the id and the trace."""
    of_documents, of_chunks = ids[:2], ids[2:]
    kinds = {
        "/documents/{}": of_documents,
        "/documents/{}/content": of_documents,
        "/documents/{}/chunks": of_documents,
        "/documents/{}/file": of_documents,
        "/chunks/{}": of_chunks,
    }
    seconds: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in kinds}
    answers: dict[str, Counter[tuple[int, str]]] = {kind: Counter() for kind in kinds}
    connection = http.client.HTTPConnection(address, timeout=60)
    headers = {"Authorization": f"Bearer {token}"}
    for number in range(n + WARM):
        kind, which = chance.choice(list(kinds)), chance.random() < 0.5
        target = str(chance.choice(kinds[kind][which]))
        started = time.perf_counter()
        connection.request("GET", f"/api/v1{kind.format(target)}", headers=headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        taken = time.perf_counter() - started
        if number >= WARM:
            seconds[kind][which].append(taken)
            answers[kind][response.status, body["detail"].replace(target, "ID")] += 1
    for kind, (foreign, missing) in seconds.items():
        p50 = [1000 * statistics.median(each) for each in (foreign, missing)]
        print(
            f"{kind:22} AUC {classify(foreign, missing):.4f} of {len(foreign) + len(missing):,}, p50 foreign "
            f"{p50[0]:.3f} ms, missing {p50[1]:.3f} ms, answers {len(answers[kind])}"
        )
    # In one kind of request, times are compared by their ranks alone.
    ranked = [[_ranks(kind)[each] for kind in seconds.values()] for each in (0, 1)]
    print(f"{'all':22} AUC {classify(*(np.concatenate(each).tolist() for each in ranked)):.4f} of {n:,}")


def _ranks(times: tuple[Sequence[float], Sequence[float]]) -> list[NDArray[np.float64]]:
    """Return the times of both classes as their share of greater ones, 0..1."""
    values = np.concatenate(times)
    ranks = np.argsort(np.argsort(values, kind="stable")) / len(values)
    return np.split(ranks, [len(times[0])])


@contextlib.contextmanager
def service(settings: Settings, viewer: Viewer, port: int) -> Iterator[str]:
    """Start the API for a library, and yield a token of a viewer."""
    private, public = new_pair()
    store = KeyStore(Catalog(settings))
    key = store.create("times", [("main", "read")]).details.id
    store.set_public_key(key, public)
    token = make_token(
        key, private, collections=["main"], seconds=3_600, principals=sorted(viewer.principals)
    )
    command = [sys.executable, "-m", "shoal_api"]
    environment = {
        **os.environ,
        "SHOAL_DATABASE_URL": settings.database_url,
        "SHOAL_PORT": str(port),
        "SHOAL_RATE_LIMIT": "0",
    }
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=60)
                connection.request("GET", "/ready")
                if connection.getresponse().status == 200:
                    break
            time.sleep(0.2)
        yield token
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure a copy of a library."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=8033)
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
            if given.queries:
                cost(engine, draw(path, given.queries, given.seed), tokens)
            ids = targets(engine, tokens[0], chance)
        with service(settings, tokens[0], given.port) as token:
            timing(f"127.0.0.1:{given.port}", token, ids, given.requests, chance)


if __name__ == "__main__":
    main()
