"""A query that is an identifier finds its definition in source code first."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine

CODE = '''\
import time


class LocalProxy:
    """Stands for a volcano."""

    def stream_with_lava(self):
        """Lava flows while the rock melts."""
        return time.time()


def test_stream_with_lava():
    assert LocalProxy().stream_with_lava()
'''
PROSE = """\
# Streams

## Streaming with lava

The stream with lava: stream_with_lava, stream_with_lava and stream_with_lava, says the volcano.

## The proxy

A LocalProxy is a LocalProxy. LocalProxy, LocalProxy.
"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "lava.py").write_text(CODE)
    engine = Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer())
    engine.ingest_file(folder / "lava.py")
    engine.ingest(content=PROSE, source_path="streams.md")
    return engine


@pytest.mark.parametrize(
    ("query", "heading"),
    [("stream_with_lava", "def stream_with_lava"), ("LocalProxy", "class LocalProxy")],
)
def test_the_definition_of_an_identifier_is_first(engine: Engine, query: str, heading: str) -> None:
    best, *others = engine.search(query, syntax="plain", include_scores=True).results
    assert best.section_path[-1] == heading
    assert best.scores.exact_name > 0
    assert {each.source_path for each in others} & {"streams.md"}


def test_a_name_in_words_is_still_the_section_of_that_name(engine: Engine) -> None:
    best = engine.search("streaming with lava", syntax="plain", include_scores=True).results[0]
    assert best.section_path[-1] == "Streaming with lava"
    assert best.scores.exact_name > 0
