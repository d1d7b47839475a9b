"""The audit log: every search writes a line from which its ranking can be reproduced."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import REEF_WORDS, FakeScorer

from shoal.engine import Engine
from shoal.errors import SettingsError
from shoal.search.audit import search_arguments
from shoal.settings import Settings

SECRET = "nectar of the qwertz hive"
Open = Callable[..., Engine]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that every test copies."""
    folder = tmp_path_factory.mktemp("filled")
    fill(Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", learning=False))
    return folder


def fill(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for i, words in enumerate(REEF_WORDS.values()):
            engine.ingest(
                title=f"Words {i}",
                content=words.capitalize() + ".",
                tags=[f"t{i % 3}"],
                source_path=f"{i}.md",
                metadata={"turn": i % 2, "odd": i % 2 == 1},
            )
            engine.ingest(title=f"Others {i}", content=f"The {words.split()[0]} and the honey of the hive.")


@pytest.fixture
def opened(settings: Settings, path: Path, filled: Path) -> Iterator[Open]:
    """Opens engines on one library with different audit settings."""
    if settings.is_sqlite:
        shutil.copytree(filled, settings.database_path.parent, dirs_exist_ok=True)
    else:
        fill(settings)
    engines: list[Engine] = []

    def open_engine(level: str, to: Path | None = path) -> Engine:
        changed = dataclasses.replace(settings, audit=level, audit_file=str(to or ""))
        engines.append(Engine(settings=changed, scorer=FakeScorer()))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_audit_log_is_off_by_default(opened: Open, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert Settings().audit == "off"
    opened("off").search(SECRET)
    assert lines(path) == []
    assert capfd.readouterr().err == ""


def test_summary_contains_only_a_hash_of_the_query(opened: Open, path: Path) -> None:
    reply = opened("summary").search(SECRET)
    text = path.read_text()
    assert not any(word in text for word in ("nectar", "qwertz", "hive"))
    (entry,) = lines(path)
    assert entry["query_sha256"] == hashlib.sha256(SECRET.encode()).hexdigest()
    assert entry["trace_id"] == reply.trace_id
    assert [result["chunk_id"] for result in entry["results"]] == [
        result.chunk_id for result in reply.results
    ]
    assert entry["candidates"]["lexical"]["n"] > 0
    assert entry["library"]["n_chunks"] == 24


SEARCHES: list[dict[str, Any]] = [
    {},
    {"mode": "lexical", "top_k": 3},
    {"mode": "reef", "offset": 2},
    {"preset": "precise", "max_per_document": 0},
    {"weights": {"lexical": 1, "reef": 2}},
    {"fusion": "rrf", "top_k": 5, "offset": 1},
    {"tags": ["t1"], "min_confidence": 0.1},
    {
        "filters": {
            "tags": ["t0", "t1"],
            "tags_match": "any",
            "document_ids": [1, 2, 3],
            "format": "plaintext",
        }
    },
    {"filters": {"document_ids": [], "created_after": "2020-01-01"}},
    {"filter": 'tags IN [t0, t1] AND NOT (turn = 2 OR source_path STARTS WITH "3")'},
    {"filter": {"$or": [{"turn": 1}, {"tags": "t2"}]}, "filters": {"document_ids": [1, 2, 3]}},
    {"filters": {"metadata": {"turn": 1, "odd": True}, "source_path": ["1.md", "3.md"]}},
]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_full_line_reproduces_the_ranking(opened: Open, path: Path, search: dict[str, Any]) -> None:
    reply = opened("full").search("honey of a volcano, a bee and a judge", **search)
    (entry,) = lines(path)
    repeated = opened("off").search(**search_arguments(entry))
    logged = [
        (result["rank"], result["chunk_id"], result["document_id"], result["score"])
        for result in entry["results"]
    ]
    first = search.get("offset", 0) + 1
    for response in (reply, repeated):
        assert logged == [
            (rank, result.chunk_id, result.document_id, result.match_score)
            for rank, result in enumerate(response.results, start=first)
        ]
    scores = [(result["lexical"], result["reef"], result["field_boost"]) for result in entry["results"]]
    assert scores == [
        (result.scores.lexical or 0.0, result.scores.reef or 0.0, result.scores.field_boost)
        for result in repeated.results
    ]
    assert entry["weights"] == repeated.weights
    assert entry["data_checksum"] == FakeScorer().data_checksum


def test_scores_can_be_computed_from_a_line(opened: Open, path: Path) -> None:
    """Normalized scores from raw scores and the best of each signal; final scores from them and the
    weights."""
    opened("full").search("honey of a volcano, a bee and a judge", top_k=100, max_per_document=0)
    (entry,) = lines(path)
    signals = entry["candidates"]
    scores = []
    for result in entry["results"]:
        for name in ("lexical", "reef"):
            assert result[name] == pytest.approx(result[f"{name}_raw"] / signals[name]["best"], rel=1e-12)
        normalized = (result["lexical"], result["reef"], result["field_boost"])
        weights = (entry["weights"][name] for name in ("lexical", "reef", "field_boost"))
        scores.append(sum(score * weight for score, weight in zip(normalized, weights, strict=True)))
        assert result["score"] == pytest.approx(scores[-1], rel=1e-12)
    assert scores == sorted(scores, reverse=True)
    for name in ("lexical", "reef"):
        raw = dict(signals[name]["first"])
        assert raw == {
            result["chunk_id"]: result[f"{name}_raw"] for result in entry["results"] if result[f"{name}_raw"]
        }
        assert len(raw) == signals[name]["n"]


def test_lines_go_to_stderr_without_a_file(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    opened("summary", None).search("rain", trace_id="of-the-request")
    out, err = capfd.readouterr()
    assert out == ""
    assert json.loads(err)["trace_id"] == "of-the-request"


def test_file_is_private_to_its_owner_and_may_be_rotated(opened: Open, path: Path) -> None:
    engine = opened("full")
    engine.search("rain")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.rename(path.with_suffix(".1"))
    engine.search("honey")
    assert [entry["query"] for entry in lines(path)] == ["honey"]


def test_concurrent_searches_write_whole_lines(opened: Open, path: Path) -> None:
    engines = [opened("full"), opened("full")]
    threads = [
        threading.Thread(
            target=lambda engine=engine: [engine.search("honey of the volcano") for _ in range(20)]
        )  # type: ignore[misc]
        for engine in engines * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(path)) == 80


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
def test_search_succeeds_when_a_line_cannot_be_written(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    reply = opened("summary", Path("/dev/full")).search("rain")
    assert reply.results
    assert "not written" in caplog.text
    assert reply.trace_id in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("SHOAL_AUDIT", "yes"), ("SHOAL_AUDIT_FILE", "/no/such/folder/a.jsonl"), ("SHOAL_AUDIT_FILE", "/")],
)
def test_setting_that_would_lose_lines_is_an_error_at_startup(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment()
