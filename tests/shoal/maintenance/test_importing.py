"""An import brings the documents of an export back, and names each line that it cannot import."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import TEXTS, documents, make, run_until_killed
from teaching_texts import about

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.maintenance.import_export import (
    MAX_BAD_LINES,
    MAX_REASON_CHARS,
    BadLine,
    Imported,
    NotAnExportError,
)
from shoal.settings import Settings

HEAD = b'{"type":"export","format":1}\n'


def import_bytes(path: Path, data: bytes, **options: Any) -> Imported:
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return engine.maintenance.import_export(io.BufferedReader(io.BytesIO(data)), **options)  # type: ignore[arg-type]


def exported(path: Path, *, canonical: bool = True) -> bytes:
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return "".join(f"{line}\n" for line in engine.maintenance.export(canonical=canonical)).encode()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db")


@pytest.mark.parametrize("canonical", [False, True])
def test_import_of_an_export_gives_the_same_library(library: Path, tmp_path: Path, canonical: bool) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.documents.set_tags(1, ["by hand"])
        engine.documents.delete(2)
    result = import_bytes(tmp_path / "other.db", exported(library, canonical=canonical))
    assert result == Imported(stored=3, duplicates=0, bad=(), is_rescored=False)
    assert exported(tmp_path / "other.db") == exported(library)


random_documents = st.fixed_dictionaries(
    {
        "content": st.text(min_size=1, max_size=60).map(lambda text: f"Lava and rain.\n\n{text}"),
        "title": st.text(max_size=20),
        "format": st.sampled_from(["markdown", "plaintext"]),
        "tags": st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), max_size=3),
        "metadata": st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
            ),
            max_size=3,
        ),
        "source_path": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=12)),
    }
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.lists(random_documents, min_size=1, max_size=3))
def test_import_keeps_any_document(given_documents: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original, other = make(Path(folder, "a.db"), 0), make(Path(folder, "b.db"), 0)
        with Engine(db_path=original, scorer=FakeScorer()) as engine:
            engine.ingest_many(given_documents)
        assert import_bytes(other, exported(original, canonical=False)).bad == ()
        assert exported(other) == exported(original)


def test_removed_tags_of_front_matter_do_not_come_back(tmp_path: Path) -> None:
    text = "---\ntags: [hot]\n---\n# Fire\n\nA volcano throws lava.\n"
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.ingest(content=text, format="markdown").tags == ("hot",)
        engine.documents.set_tags(1, [])
    import_bytes(tmp_path / "b.db", exported(tmp_path / "a.db"))
    assert exported(tmp_path / "b.db") == exported(tmp_path / "a.db")


def test_import_keeps_warnings_of_the_original_file(tmp_path: Path) -> None:
    file = tmp_path / "old.txt"
    file.write_bytes(
        "Der Vulkan spuckt Lava und Asche. Die Straße ist gesperrt, für Übermütige auch.".encode("cp1252")
    )
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert "read as" in engine.ingest_file(file).warnings[0]
    import_bytes(tmp_path / "b.db", exported(tmp_path / "a.db"))
    assert exported(tmp_path / "b.db") == exported(tmp_path / "a.db")


def test_import_learns_the_same_words_as_a_rescore(tmp_path: Path) -> None:
    texts = [
        *(about("fire", "zorblat"), about("sea", "quendle"), about("law", "zorblat", 3)),
        *(about("bees", "mirthog"), about("fire", "quendle", 3), about("sea", "mirthog", 2)),
    ]
    with Engine(db_path=tmp_path / "a.db") as engine:
        for text in texts[:3]:
            engine.ingest(content=text)
        engine.ingest_many([{"content": text} for text in texts[3:]])
        before = list(engine.maintenance.export())
        engine.maintenance.rescore()
        expected = list(engine.maintenance.export(canonical=True))
    assert sum('"custom_word"' in line for line in expected) >= 3
    small_waves = Settings(database_url=f"sqlite:///{tmp_path / 'b.db'}", wave_bytes=300)
    with Engine(settings=small_waves) as engine:
        result = engine.maintenance.import_export(io.BytesIO("\n".join(before).encode()))
        assert result.is_rescored
        assert list(engine.maintenance.export(canonical=True)) == expected


def test_import_adds_to_an_existing_library(library: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other.db", 2)
    with Engine(db_path=other, scorer=FakeScorer()) as engine:
        engine.documents.set_tags(1, ["mine"])
    result = import_bytes(other, exported(library))
    assert (result.stored, result.duplicates, result.bad) == (2, 2, ())
    with Engine(db_path=other, scorer=FakeScorer()) as engine:
        assert [document.title for document in engine.documents.list().documents[:2]] == list(TEXTS)[:2]
        assert engine.documents.list().total == 4
        assert set(engine.documents.get(1).document.tags) == {"mine", "fire"}


def test_repeated_import_changes_nothing(library: Path, tmp_path: Path) -> None:
    data = exported(library)
    assert import_bytes(tmp_path / "other.db", data).stored == 4
    after_first = exported(tmp_path / "other.db", canonical=False)
    assert import_bytes(tmp_path / "other.db", data) == Imported(0, 4, (), False)
    assert exported(tmp_path / "other.db", canonical=False) == after_first


KILLED = """
import os, signal, sys
from fake_scorer import FakeScorer
from shoal.engine import Engine
from shoal.maintenance.import_export import MAX_BAD_LINES, MAX_REASON_CHARS
from shoal.settings import Settings
seen = []
def watch(progress):
    seen.append(progress)
    if progress.items_done:
        os.kill(os.getpid(), signal.SIGKILL)
settings = Settings(database_url=f"sqlite:///{sys.argv[1]}", wave_bytes=1, batch_items=1)
with Engine(settings=settings, scorer=FakeScorer()) as engine:
    engine.maintenance.import_export(open(sys.argv[2], "rb"), watch=watch)
"""


def test_killed_import_completes_when_repeated(library: Path, tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_bytes(exported(library))
    other = make(tmp_path / "other.db", 0)
    run_until_killed(KILLED, other, tmp_path / "export.jsonl")
    result = import_bytes(other, exported(library))
    assert result.duplicates >= 1
    assert result.stored + result.duplicates == 4
    assert exported(other) == exported(library)


def test_bad_lines_are_reported_and_the_rest_is_imported(tmp_path: Path) -> None:
    def line(**fields: Any) -> bytes:
        return json.dumps({"type": "document", **fields}).encode() + b"\n"

    data = b"".join(
        [
            HEAD,
            line(title="Good", content="A volcano throws lava."),
            b"no JSON\n",
            b'["a", "list"]\n',
            line(title="No content"),
            b'{"type":"chunk","text":"derived records are ignored"}\n',
            b'{"type":"recipe"}\n',
            line(content="Rain and storm.", content_hash="0" * 64),
            line(content=17),
            line(content="A judge.", tags="not a list"),
            line(content="A judge.", warnings=[1]),
            line(content=" \n"),
            line(content="<!-- only a comment -->", format="markdown"),
            b"[" * 100_000 + b"\n",
            b"\xff\xfe\n",
            line(title="Also good", content="Rain and storm."),
            b'{"type":"document","content":"cut of',
        ]
    )
    result = import_bytes(tmp_path / "a.db", data)
    assert result.stored == 2
    assert [bad.line for bad in result.bad] == [3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]
    reasons = {bad.line: bad.reason for bad in result.bad}
    assert "not JSON" in reasons[3]
    assert "content: is missing" in reasons[5]
    assert "`recipe`" in reasons[7]
    assert "changed or damaged" in reasons[8]
    assert "no text" in reasons[13]
    assert "cut off" in reasons[17]


def test_overlong_line_is_not_read_into_memory(tmp_path: Path) -> None:
    small = Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", max_document_bytes=1000)
    long = b'{"type":"document","content":"' + b"x" * 3_000_000 + b'"}\n'
    good = b'{"type":"document","content":"Rain and storm."}\n'
    with Engine(settings=small, scorer=FakeScorer()) as engine:
        result = engine.maintenance.import_export(io.BytesIO(HEAD + long + good))
    assert result == Imported(1, 0, (BadLine(2, "the line is longer than any document can be"),), False, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"warnings": ["a lone surrogate \ud800, an escape \x1b[2J"]},
        {"title": "\udfff", "tags": ["\ud800a"], "source_path": "\ud800.md"},
        {"id": 10**400},
    ],
)
def test_unstorable_characters_are_cleaned(tmp_path: Path, fields: dict[str, Any]) -> None:
    line = json.dumps({"type": "document", "content": "Rain and storm.", **fields}).encode() + b"\n"
    result = import_bytes(tmp_path / "a.db", HEAD + line)
    assert (result.stored, result.n_bad) == (1, 0)
    assert import_bytes(tmp_path / "b.db", exported(tmp_path / "a.db")).stored == 1


@pytest.mark.parametrize(
    "fields",
    [
        b'"warnings":[' + b'"x",' * 200 + b'"x"]',
        b'"warnings":["' + b"x" * 2000 + b'"]',
        b'"metadata":{"a":NaN}',
        b'"metadata":{"a":1e999}',
        b'"metadata":{"\\ud800":1}',
        b'"metadata":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'"content":5',
        b'"tags":[[' + b"1," * 100_000 + b"1]]",
    ],
)
def test_hostile_line_is_a_bad_line_with_a_short_reason(tmp_path: Path, fields: bytes) -> None:
    line = b'{"type":"document","content":"Rain and storm.",' + fields + b"}\n"
    good = b'{"type":"document","content":"A volcano throws lava."}\n'
    result = import_bytes(tmp_path / "a.db", HEAD + line + good)
    assert (result.stored, [bad.line for bad in result.bad]) == (1, [2])
    assert len(result.bad[0].reason) <= MAX_REASON_CHARS + 1


def test_first_bad_lines_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    n = 3 * MAX_BAD_LINES
    result = import_bytes(tmp_path / "a.db", HEAD + b"x\n" * n)
    assert (result.n_bad, len(result.bad), result.bad[0].line) == (n, MAX_BAD_LINES, 2)


def test_damage_inside_a_compressed_export_stores_nothing(library: Path, tmp_path: Path) -> None:
    compressed = gzip.compress(exported(library))
    # A block of an unknown type after the readable part.
    data = compressed + compressed[:10] + b"\x07" * 20
    with pytest.raises(NotAnExportError, match="nothing was stored"):
        import_bytes(tmp_path / "a.db", data)
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.documents.list().total == 0


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not an export"),
        (b"dear diary\n", "not an export"),
        (b'{"title":"NDJSON","content":"Rain"}\n', "shoal upload"),
        (b'{"type":"export","format":2}\n', "newer"),
        (b'{"type":"export"}\n', "format None"),
        (gzip.compress(HEAD * 100, mtime=0)[:40], "damaged"),
    ],
)
def test_file_that_is_not_an_export_is_refused(tmp_path: Path, data: bytes, match: str) -> None:
    with pytest.raises(NotAnExportError, match=match):
        import_bytes(tmp_path / "a.db", data)


def test_truncated_compressed_export_stores_nothing(library: Path, tmp_path: Path) -> None:
    data = gzip.compress(exported(library))
    with pytest.raises(NotAnExportError, match="nothing was stored"):
        import_bytes(tmp_path / "a.db", data[:-20])
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.documents.list().total == 0
    assert import_bytes(tmp_path / "a.db", data).stored == 4


def test_import_command_reports_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, file = tmp_path / "a.db", tmp_path / "export.jsonl"
    records = [{"type": "document", **document} for document in documents(2)]
    file.write_bytes(HEAD + b"".join(json.dumps(record).encode() + b"\n" for record in records) + b"oops\n")
    assert run(["--db", str(database), "import", str(file)]) == 1
    captured = capsys.readouterr()
    assert "2 stored, 0 duplicates, 1 bad line" in captured.out
    assert "failed: line 4: this is not JSON" in captured.err
    assert run(["--db", str(database), "--json", "export"]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(capsys.readouterr().out.encode())))
    assert run(["--db", str(tmp_path / "b.db"), "--json", "import", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "stored": 2,
        "duplicates": 0,
        "bad": [],
        "is_rescored": False,
        "n_bad": 0,
        "notes": 0,
        "duplicate_notes": 0,
        "forgotten_notes": 0,
        "merges": 0,
        "proposals": 0,
        "sessions": 0,
        "left_out": 0,
        "vectors": 0,
        "synonyms": 0,
        "pins": 0,
    }
    assert run(["--db", str(database), "import", str(tmp_path / "none.jsonl")]) == 1
