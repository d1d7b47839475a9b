"""Worker processes evaluate each saved search once, and each webhook has one sender at a time."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from empty_library import put_empty_library
from fake_scorer import FakeScorer
from web_server import response, running

from shoal import Engine
from shoal.saved_searches.matching import Matcher
from shoal.search.library_index import IndexCache
from shoal.search.searcher import Searcher
from shoal.settings import Settings
from shoal_worker.keepers import SavedSearchKeeper

SEARCH = {"query": "lava", "mode": "lexical", "min_relevance": 0.0}
N_SEARCHES = 25


def test_many_workers_report_each_match_once(settings: Settings, migrated_file: Path) -> None:
    put_empty_library(migrated_file, settings)
    watching = dataclasses.replace(settings, webhook_hosts="*:*", webhook_private="127.0.0.1")
    with running() as server, Engine(settings=watching, scorer=FakeScorer()) as engine:
        server.answers["/hook"] = response()
        for i in range(N_SEARCHES):
            engine.saved_searches.create(f"S{i}", SEARCH, url=server.url("/hook"))
        engine.ingest_many([{"content": f"Lava number {i}."} for i in range(3)])

        def work(_: int) -> None:
            matcher = Matcher(
                engine.database,
                Searcher(engine.database, FakeScorer(), watching, IndexCache(engine.database)),
            )
            keeper = SavedSearchKeeper(engine.database, watching, FakeScorer())
            while matcher.match_batch():
                pass
            while keeper.deliver():
                pass

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        engine.saved_searches.run()
        ids = [headers["shoal-delivery"] for _, headers in server.requests]
        assert len(ids) == len(set(ids)) == N_SEARCHES
        assert engine.saved_searches.counts() == {
            "active": N_SEARCHES, "waiting": 0, "delivered": N_SEARCHES, "failed": 0
        }  # fmt: skip
