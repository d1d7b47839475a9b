"""Filters that nothing in the library can meet get a warning with a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.filters import warnings
from shoal.filters.warnings import MAX_COMPARED_CHARS, MAX_WARNINGS
from shoal.settings import Settings
from shoal.storage import field_values
from shoal.storage.database import Snapshot


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    settings = Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('warnings') / 'shoal.db'}")
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        opened.ingest(
            title="Rain",
            content="Rain and storm. Wind and rain.",
            tags=["wiki", "weather"],
            source_path="/notes/Rain.md",
            metadata={"language": "en", "year": 1830, "draft": False, "by": {"name": "x"}, "none": None},
        )
        yield opened


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": ["WIKI"]}, ["no document has the tag WIKI; did you mean wiki?"]),
        ({"tags": ["wether", "wiki"]}, ["no document has the tag wether; did you mean weather?"]),
        ({"tags": ["zzz"]}, ["no document has the tag zzz"]),
        (
            {"tags": ["q1", "q2", "q3", "q4", "q5"]},
            [*(f"no document has the tag q{i}" for i in (1, 2, 3)), "and 2 more tags that no document has"],
        ),
        ({"document_ids": [1, 77]}, ["there is no document 77"]),
        (
            {"source_path": "rain.md"},
            ["no document has the source path rain.md; did you mean /notes/Rain.md?"],
        ),
        ({"source_path": ["/notes/Rain.md", "100%.md"]}, ["no document has the source path 100%.md"]),
        (
            {"metadata": {"langauge": "en"}},
            ["no document has the key metadata.langauge in its metadata; did you mean metadata.language?"],
        ),
        ({"name_contains": "rain"}, []),
        ({"name_contains": "100%"}, ["no document has a title or source path with 100%"]),
        ({"file_type": "PDF"}, ["no document has the type pdf"]),
        ({"metadata": {"language": "de"}}, ['no document has language = "de" in its metadata']),
        (
            {"metadata": {"year": "1830"}},
            ['no document has year = "1830" in its metadata; the stored value is a number, such as 1830'],
        ),
        (
            {"metadata": {"draft": 0}},
            ["no document has draft = 0 in its metadata; the stored value is true or false"],
        ),
        (
            {"metadata": {"by": "x"}},
            [
                (
                    'no document has by = "x" in its metadata; '
                    "the stored value is an object or an empty list, which filters do not compare"
                )
            ],
        ),
        ({"metadata": {"none": 1}}, ["no document has none = 1 in its metadata; the stored value is null"]),
        ({"tags": ["wiki"], "source_path": "/notes/Rain.md", "metadata": {"year": 1830, "none": None}}, []),
        ({"document_ids": [], "source_path": [], "metadata": {}}, []),
        ({}, []),
    ],
)
def test_filters_that_no_document_meets_get_a_warning(
    engine: Engine, filters: dict[str, Any], expected: list[str]
) -> None:
    before = engine.search("rain").warnings
    reply = engine.search("rain", filters=filters)
    assert [warning for warning in reply.warnings if warning not in before] == expected
    assert engine.explain("rain", filters=filters).warnings == reply.warnings


def test_only_the_warnings_that_are_shown_are_built(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    n_read = 0

    def compare(name: str, known: list[str], n: int) -> list[str]:
        compared.append(name)
        assert all(len(each) <= MAX_COMPARED_CHARS for each in (name, *known))
        return []

    def read_keys(_snapshot: Snapshot) -> list[str]:
        nonlocal n_read
        n_read += 1
        return ["k" * 1_000, "language"]

    monkeypatch.setattr(warnings, "difflib", SimpleNamespace(get_close_matches=compare))
    monkeypatch.setattr(field_values, "metadata_keys", read_keys)
    conditions = [f"{'q' * 100}{number} = {value}" for number in range(100) for value in (1, 2)]
    engine.search("rain", filter=" OR ".join(conditions))
    assert len(compared) == MAX_WARNINGS
    assert n_read == 1
