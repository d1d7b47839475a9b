"""What was exported can be brought back; what can't is named, line by line."""

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
    import_export,
)
from shoal.settings import Settings

HEAD = b'{"type":"export","format":1}\n'


def take_in(path: Path, data: bytes, **options: Any) -> Imported:
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return import_export(engine, io.BufferedReader(io.BytesIO(data)), **options)  # type: ignore[arg-type]


def exported(path: Path, *, canonical: bool = True) -> bytes:
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return "".join(f"{line}\n" for line in engine.export(canonical=canonical)).encode()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db")


@pytest.mark.parametrize("canonical", [False, True])
def test_an_import_of_an_export_gives_the_same_library(
    library: Path, tmp_path: Path, canonical: bool
) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.set_tags(1, ["by hand"])
        engine.delete_document(2)
    done = take_in(tmp_path / "other.db", exported(library, canonical=canonical))
    assert done == Imported(stored=3, duplicates=0, bad=(), is_rescored=False)
    assert exported(tmp_path / "other.db") == exported(library)


documents_of_any_kind = st.fixed_dictionaries(
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
@given(st.lists(documents_of_any_kind, min_size=1, max_size=3))
def test_whatever_was_taken_in_comes_back(given_documents: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made, other = make(Path(folder, "a.db"), 0), make(Path(folder, "b.db"), 0)
        with Engine(db_path=made, scorer=FakeScorer()) as engine:
            engine.ingest_many(given_documents)
        assert take_in(other, exported(made, canonical=False)).bad == ()
        assert exported(other) == exported(made)


def test_tags_that_were_removed_from_a_document_do_not_come_back(tmp_path: Path) -> None:
    text = "---\ntags: [hot]\n---\n# Fire\n\nA volcano throws lava.\n"
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.ingest(content=text, format="markdown").tags == ("hot",)
        engine.set_tags(1, [])
    take_in(tmp_path / "b.db", exported(tmp_path / "a.db"))
    assert exported(tmp_path / "b.db") == exported(tmp_path / "a.db")


def test_what_was_doubtful_of_a_text_as_it_came_is_still_told(tmp_path: Path) -> None:
    file = tmp_path / "old.txt"
    file.write_bytes(
        "Der Vulkan spuckt Lava und Asche. Die Straße ist gesperrt, für Übermütige auch.".encode("cp1252")
    )
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert "read as" in engine.ingest_file(file).warnings[0]
    take_in(tmp_path / "b.db", exported(tmp_path / "a.db"))
    assert exported(tmp_path / "b.db") == exported(tmp_path / "a.db")


def test_learned_words_are_those_of_a_library_that_was_rescored(tmp_path: Path) -> None:
    texts = [
        *(about("fire", "zorblat"), about("sea", "quendle"), about("law", "zorblat", 3)),
        *(about("bees", "mirthog"), about("fire", "quendle", 3), about("sea", "mirthog", 2)),
    ]
    with Engine(db_path=tmp_path / "a.db") as engine:
        for text in texts[:3]:
            engine.ingest(content=text)
        engine.ingest_many([{"content": text} for text in texts[3:]])
        before = list(engine.export())
        engine.rescore()
        expected = list(engine.export(canonical=True))
    assert sum('"custom_word"' in line for line in expected) >= 3
    small_waves = Settings(database_url=f"sqlite:///{tmp_path / 'b.db'}", wave_bytes=300)
    with Engine(settings=small_waves) as engine:
        done = import_export(engine, io.BytesIO("\n".join(before).encode()))
        assert done.is_rescored
        assert list(engine.export(canonical=True)) == expected


def test_an_import_into_a_library_adds_to_it(library: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other.db", 2)
    with Engine(db_path=other, scorer=FakeScorer()) as engine:
        engine.set_tags(1, ["mine"])
    done = take_in(other, exported(library))
    assert (done.stored, done.duplicates, done.bad) == (2, 2, ())
    with Engine(db_path=other, scorer=FakeScorer()) as engine:
        assert [document.title for document in engine.documents().documents[:2]] == list(TEXTS)[:2]
        assert engine.documents().total == 4
        assert set(engine.document(1).document.tags) == {"mine", "fire"}


def test_an_import_can_be_run_again(library: Path, tmp_path: Path) -> None:
    data = exported(library)
    assert take_in(tmp_path / "other.db", data).stored == 4
    once = exported(tmp_path / "other.db", canonical=False)
    assert take_in(tmp_path / "other.db", data) == Imported(0, 4, (), False)
    assert exported(tmp_path / "other.db", canonical=False) == once


KILLED = """
import os, signal, sys
from fake_scorer import FakeScorer
from shoal.engine import Engine
from shoal.maintenance.import_export import MAX_BAD_LINES, MAX_REASON_CHARS, import_export
from shoal.settings import Settings
seen = []
def watch(progress):
    seen.append(progress)
    if progress.items_done:
        os.kill(os.getpid(), signal.SIGKILL)
settings = Settings(database_url=f"sqlite:///{sys.argv[1]}", wave_bytes=1, batch_items=1)
with Engine(settings=settings, scorer=FakeScorer()) as engine:
    import_export(engine, open(sys.argv[2], "rb"), watch=watch)
"""


def test_an_import_that_is_killed_goes_on_when_run_again(library: Path, tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").write_bytes(exported(library))
    other = make(tmp_path / "other.db", 0)
    run_until_killed(KILLED, other, tmp_path / "export.jsonl")
    done = take_in(other, exported(library))
    assert done.duplicates >= 1
    assert done.stored + done.duplicates == 4
    assert exported(other) == exported(library)


def test_bad_lines_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    def line(**fields: Any) -> bytes:
        return json.dumps({"type": "document", **fields}).encode() + b"\n"

    data = b"".join(
        [
            HEAD,
            line(title="Good", content="A volcano throws lava."),
            b"no JSON\n",
            b'["a", "list"]\n',
            line(title="No content"),
            b'{"type":"chunk","text":"what follows from documents is not read"}\n',
            b'{"type":"recipe"}\n',
            line(content="Rain and storm.", content_hash="0" * 64),
            line(content=17),
            line(content="A judge.", tags="not a list"),
            line(content="A judge.", warnings=[1]),
            line(content=" \n"),
            line(content="# Only a heading", format="markdown"),
            b"[" * 100_000 + b"\n",
            b"\xff\xfe\n",
            line(title="Also good", content="Rain and storm."),
            b'{"type":"document","content":"cut of',
        ]
    )
    done = take_in(tmp_path / "a.db", data)
    assert done.stored == 2
    assert [bad.line for bad in done.bad] == [3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]
    reasons = {bad.line: bad.reason for bad in done.bad}
    assert "not JSON" in reasons[3]
    assert "content: is missing" in reasons[5]
    assert "`recipe`" in reasons[7]
    assert "changed or damaged" in reasons[8]
    assert "no text" in reasons[13]
    assert "cut off" in reasons[17]


def test_a_line_that_no_document_can_have_is_not_read_into_memory(tmp_path: Path) -> None:
    small = Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", max_document_bytes=1000)
    long = b'{"type":"document","content":"' + b"x" * 3_000_000 + b'"}\n'
    good = b'{"type":"document","content":"Rain and storm."}\n'
    with Engine(settings=small, scorer=FakeScorer()) as engine:
        done = import_export(engine, io.BytesIO(HEAD + long + good))
    assert done == Imported(1, 0, (BadLine(2, "the line is longer than any document can be"),), False, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"warnings": ["a lone surrogate \ud800, an escape \x1b[2J"]},
        {"title": "\udfff", "tags": ["\ud800a"], "source_path": "\ud800.md"},
        {"id": 10**400},
    ],
)
def test_values_that_no_text_can_have_are_made_harmless(tmp_path: Path, fields: dict[str, Any]) -> None:
    line = json.dumps({"type": "document", "content": "Rain and storm.", **fields}).encode() + b"\n"
    done = take_in(tmp_path / "a.db", HEAD + line)
    assert (done.stored, done.n_bad) == (1, 0)
    assert take_in(tmp_path / "b.db", exported(tmp_path / "a.db")).stored == 1


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
def test_a_hostile_line_is_a_bad_line_with_a_short_reason(tmp_path: Path, fields: bytes) -> None:
    line = b'{"type":"document","content":"Rain and storm.",' + fields + b"}\n"
    good = b'{"type":"document","content":"A volcano throws lava."}\n'
    done = take_in(tmp_path / "a.db", HEAD + line + good)
    assert (done.stored, [bad.line for bad in done.bad]) == (1, [2])
    assert len(done.bad[0].reason) <= MAX_REASON_CHARS + 1


def test_of_many_bad_lines_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    n = 3 * MAX_BAD_LINES
    done = take_in(tmp_path / "a.db", HEAD + b"x\n" * n)
    assert (done.n_bad, len(done.bad), done.bad[0].line) == (n, MAX_BAD_LINES, 2)


def test_damage_in_the_middle_of_a_compressed_export_is_said(library: Path, tmp_path: Path) -> None:
    whole = gzip.compress(exported(library))
    # A block of a type that does not exist, after what can be read.
    data = whole + whole[:10] + b"\x07" * 20
    with pytest.raises(NotAnExportError, match="nothing of it was stored"):
        take_in(tmp_path / "a.db", data)
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.documents().total == 0


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
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, data: bytes, match: str) -> None:
    with pytest.raises(NotAnExportError, match=match):
        take_in(tmp_path / "a.db", data)


def test_a_compressed_export_that_was_cut_off_stores_nothing(library: Path, tmp_path: Path) -> None:
    data = gzip.compress(exported(library))
    with pytest.raises(NotAnExportError, match="nothing of it was stored"):
        take_in(tmp_path / "a.db", data[:-20])
    with Engine(db_path=tmp_path / "a.db", scorer=FakeScorer()) as engine:
        assert engine.documents().total == 0
    assert take_in(tmp_path / "a.db", data).stored == 4


def test_the_command_tells_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, file = tmp_path / "a.db", tmp_path / "export.jsonl"
    good = [{"type": "document", **document} for document in documents(2)]
    file.write_bytes(HEAD + b"".join(json.dumps(one).encode() + b"\n" for one in good) + b"oops\n")
    assert run(["--db", str(database), "import", str(file)]) == 1
    printed = capsys.readouterr()
    assert "2 stored, 0 duplicates, 1 bad line" in printed.out
    assert "failed: line 4: this is not JSON" in printed.err
    assert run(["--db", str(database), "--json", "export"]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(capsys.readouterr().out.encode())))
    assert run(["--db", str(tmp_path / "b.db"), "--json", "import", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "stored": 2,
        "duplicates": 0,
        "bad": [],
        "is_rescored": False,
        "n_bad": 0,
    }
    assert run(["--db", str(database), "import", str(tmp_path / "none.jsonl")]) == 1
