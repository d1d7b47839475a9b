"""The commands on a database, as a person or a script runs them: output, exit codes, what is stored."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli.app import run
from shoal.engine import Engine

SAMPLES = Path(__file__).parents[3] / "shoal" / "sample_corpus"
HOSTILE = (
    "The volcano erupted [bold]loudly[/bold] and \x1b[31mlava\x1b[0m ran to the sea. It buried the town."
)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, which must be one JSON document and nothing else."""
        return json.loads(self.out)


Shoal = Callable[..., Ran]


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shoal:
    """Run a command in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run_shoal(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_shoal


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of three articles and one hostile note, made once."""
    folder = tmp_path_factory.mktemp("library")
    texts = folder / "texts"
    texts.mkdir()
    for name in ("bees-and-pollination.md", "volcanoes.md", "juries.md"):
        shutil.copy(SAMPLES / name, texts)
    (texts / "hostile.txt").write_text(HOSTILE)
    assert (
        run(["--db", str(folder / "library.db"), "ingest-dir", str(texts), "--tags", "sample", "--json"]) == 0
    )
    return folder / "library.db"


@pytest.fixture
def db(library: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(library, tmp_path / "copy.db"))


def test_without_arguments_the_help_is_shown(shoal: Shoal) -> None:
    ran = shoal()
    assert ran.code == 0
    assert "ingest-dir" in ran.out
    assert "shoal search" in ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["swim"],
        ["search"],
        ["search", "a", "b"],
        ["search", "bees", "--top-k", "many"],
        ["search", "bees", "--top-k", "0"],
        ["search", "bees", "--no-such-option"],
        ["--db", "postgres://host/x", "status"],
        ["--db", "", "status"],
        ["--db", "/", "status"],
        ["ingest", "a.txt", "b.txt", "--title", "Both"],
        ["ingest", "a.txt", "--format", "pdf"],
        ["ingest-dir", "no-such-folder"],
    ],
)
def test_wrong_usage_ends_with_2_and_a_reason_and_makes_no_database(
    shoal: Shoal, arguments: list[str]
) -> None:
    ran = shoal(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "Error: " in ran.err
    assert "Traceback" not in ran.err
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--top-k", "1000"], "--top-k: must be between 1 and 100"),
        (["--mode", "dense"], "--mode: 'dense' is not one of"),
        (["--preset", "bold"], "--preset: 'bold' is not one of"),
    ],
)
def test_a_search_that_cannot_be_run_names_the_option(
    shoal: Shoal, library: Path, arguments: list[str], named: str
) -> None:
    ran = shoal("--db", library, "search", "bees", *arguments)
    assert ran.code == 2
    assert named in ran.err


@pytest.mark.parametrize(
    "command", [["search", "bees"], ["show", "1"], ["delete", "1"], ["tags", "1", "a"], ["export"]]
)
def test_a_database_that_is_not_there_is_not_made_by_looking(shoal: Shoal, command: list[str]) -> None:
    ran = shoal("--db", "misspelt.db", *command)
    assert ran.code == 1
    assert "there is no database" in ran.err
    assert "misspelt.db" in ran.err
    assert not Path("misspelt.db").exists()


def test_the_status_of_nothing_is_zeros(shoal: Shoal) -> None:
    ran = shoal("status", "--json")
    assert ran.code == 0
    assert ran.json["n_documents"] == ran.json["n_chunks"] == 0
    assert list(Path.cwd().iterdir()) == []


def test_ingest_reports_every_file_and_stores_the_good_ones(shoal: Shoal, tmp_path: Path) -> None:
    good = tmp_path / "bees.md"
    good.write_text("# Bees\n\nA bee gathers nectar from flowers. The hive stores honey for the winter.\n")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    ran = shoal(
        "ingest", good, tmp_path / "empty.txt", tmp_path / "picture.txt", tmp_path / "gone.txt", tmp_path
    )
    assert ran.code == 1
    assert "1 stored, 0 duplicates, 4 failed" in ran.out
    for name in ("empty.txt", "picture.txt", "gone.txt"):
        assert f"failed: {tmp_path / name}: " in ran.err
    assert "ingest-dir" in ran.err
    assert shoal("status", "--json").json["n_documents"] == 1


def test_a_file_stored_already_is_a_duplicate_and_passes_its_tags_on(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The jury heard the evidence. The judge explained the law to them.")
    first = shoal("ingest", note, "--tags", "law, court", "--title", "A Trial", "--json").json["results"][0]
    assert (first["title"], first["tags"], first["duplicate"]) == ("A Trial", ["law", "court"], None)
    again = shoal("ingest", note, "--tags", "jury")
    assert again.code == 0
    assert f"stored already as document {first['id']}" in again.out
    shown = shoal("show", first["id"], "--json").json
    assert set(shown["document"]["tags"]) == {"law", "court", "jury"}


@pytest.mark.parametrize("workers", [1, 2])
def test_ingest_dir_takes_in_every_text_below_and_names_the_bad_file(
    shoal: Shoal, tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "texts"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".git").mkdir()
    for number in range(5):
        text = f"Note {number}. The bees fly to flower number {number}. They carry pollen home to the hive."
        (folder / "deep" / f"{number}.txt").write_text(text)
    (folder / "deep" / "er" / "up.MARKDOWN").write_text(
        "# Lava\n\nThe volcano threw out lava and ash for days.\n"
    )
    (folder / "bad.md").write_bytes(b"\x00\x01\x02" * 50)
    (folder / ".git" / "hidden.txt").write_text("not to be read")
    (folder / "image.png").write_bytes(b"not a text")
    ran = shoal("ingest-dir", folder, "--tags", "a,b", "--workers", workers, "--json")
    assert ran.code == 1
    assert (ran.json["stored"], ran.json["duplicates"], ran.json["failed"]) == (6, 0, 1)
    by_name = {Path(result["path"]).name: result for result in ran.json["results"]}
    assert set(by_name) == {"0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "up.MARKDOWN", "bad.md"}
    assert by_name["bad.md"]["error"]
    assert by_name["0.txt"]["tags"] == ["a", "b"]
    assert f"failed: {folder / 'bad.md'}: " in ran.err
    assert "1 passed over: 1 .png" in ran.err
    assert ran.json["passed_over"] == {".png": 1}
    again = shoal("ingest-dir", folder, "--workers", workers, "--no-recursive")
    assert again.code == 1
    assert "0 stored, 0 duplicates, 1 failed" in again.out
    assert "0 stored, 5 duplicates" in shoal("ingest-dir", folder / "deep", "--no-recursive").out


def test_a_folder_without_texts_is_an_error(shoal: Shoal) -> None:
    for name in ("a.pdf", "b.pdf", "c.DOCX", "LICENSE", ".hidden.pdf"):
        Path(name).write_bytes(b"not a text")
    ran = shoal("ingest-dir", ".")
    assert ran.code == 1
    assert (
        "there is no .md, .markdown or .txt file in .; 4 passed over: 2 .pdf, 1 .docx, 1 without" in ran.err
    )


def test_results_name_document_headings_lines_and_the_reef(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "search", "how bees pollinate flowers", "--top-k", "2")
    assert ran.code == 0
    assert ran.out.startswith("1. Bees and Pollination")
    assert re.search(r", lines? \d+", ran.out)
    assert "about " in ran.out
    assert "The query is about:" in ran.out
    assert "chunk z" not in ran.out


def test_scores_draw_both_z_scores_of_the_shared_reefs(shoal: Shoal, library: Path) -> None:
    arguments = ["--db", library, "search", "how bees pollinate flowers", "--top-k", "1"]
    drawn = shoal(*arguments, "--scores").out
    result = shoal(*arguments, "--json").json["results"][0]
    assert "chunk z" in drawn
    assert "query z" in drawn
    best = max(result["shared_reefs"], key=lambda reef: reef["chunk_z"] * reef["query_z"])
    assert f"{best['chunk_z']:.1f}" in drawn
    assert f"{best['query_z']:.1f}" in drawn
    assert "█" in drawn


@pytest.mark.parametrize("before", [True, False])
def test_json_stands_before_or_after_the_command(shoal: Shoal, library: Path, before: bool) -> None:
    options = ["--json", "--db", library]
    rest = ["search", "volcano", "--tags", "sample"]
    ran = shoal(*options, *rest) if before else shoal(*rest, *options)
    assert ran.code == 0
    assert ran.json["results"]
    assert {"results", "query_info", "trace_id", "took_ms", "warnings"} <= set(ran.json)


def test_a_search_cut_short_by_the_limit_of_a_document_says_so(shoal: Shoal, library: Path) -> None:
    ask = ["--db", library, "search", "how bees pollinate flowers", "--top-k", "40"]
    note = "at most 1 passage of a document; --max-per-document 0 lifts that"
    cut, whole = shoal(*ask, "--max-per-document", "1").out, shoal(*ask, "--max-per-document", "0").out
    assert note in cut
    assert "at most" not in whole
    assert shoal(*ask, "--max-per-document", "1", "--json").json["warnings"] == []
    # As many as were asked for, and fewer for another reason: there is nothing to say.
    assert "at most" not in shoal(*ask[:-1], "2", "--max-per-document", "1").out
    assert "at most" not in shoal(*ask, "--max-per-document", "40").out
    assert len(shoal(*ask, "--max-per-document", "0", "--json").json["results"]) > cut.count("document ")


def test_nothing_found_is_no_failure(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "search", "volcano", "--tags", "no such tag")
    assert ran.code == 0
    assert "Nothing found" in ran.out


def test_a_search_in_an_empty_database_says_that_it_is_empty(shoal: Shoal) -> None:
    shoal("migrate")
    ran = shoal("search", "volcano")
    assert ran.code == 0
    assert "the database holds no documents" in ran.err


def test_text_of_a_document_cannot_act_on_the_terminal(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "search", "volcano lava", "--top-k", "10", "--max-per-document", "10")
    assert "[bold]loudly[/bold]" in ran.out.replace("\n   ", " ")
    assert "\x1b" not in ran.out
    assert "\\u001b" not in shoal("--db", library, "search", "volcano", "--json").out


def test_a_reason_in_json_comes_on_both_streams(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "show", "999", "--json")
    assert ran.code == 1
    assert ran.json == {"error": "there is no document 999"}
    assert ran.err == "error: there is no document 999\n"


def test_explain_lists_the_words_and_what_became_of_them(shoal: Shoal, library: Path) -> None:
    query = "how do bees qqqwwweee"
    ran = shoal("--db", library, "explain", query)
    assert ran.code == 0
    for word in ("bees", "qqqwwweee", "unknown", "Numbers: what the word adds"):
        assert word in ran.out
    assert "Numbers:" not in shoal("--db", library, "explain", "qqqwwweee").out
    assert shoal("--db", library, "explain", query, "--json").json


def test_explain_tells_where_a_document_ranks(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "explain", "bees", "--document", "1")
    assert ran.code == 0
    assert "document 1" in ran.out
    missing = shoal("--db", library, "explain", "bees", "--document", "99")
    assert missing.code == 1
    assert "there is no document 99" in missing.err


def test_show_lists_sections_lines_and_reefs(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "show", "1")
    assert ran.code == 0
    assert "Bees and Pollination" in ran.out
    assert "#0" in ran.out
    document = shoal("--db", library, "show", "1", "--json").json
    content = (SAMPLES / "bees-and-pollination.md").read_text()
    for chunk in document["chunks"]:
        assert content[chunk["start_char"] : chunk["end_char"]] == chunk["text"]


def test_show_prints_the_text_of_all_passages_or_of_one(shoal: Shoal, library: Path) -> None:
    chunks = shoal("--db", library, "show", "1", "--json").json["chunks"]
    everything = shoal("--db", library, "show", "1", "--text").out
    assert all(chunk["text"].rstrip() in everything for chunk in chunks)
    one = shoal("--db", library, "show", "1", "--chunk", "2").out
    assert [chunk["chunk_index"] for chunk in chunks if chunk["text"].rstrip() in one] == [2]
    assert shoal("--db", library, "show", "1", "--chunk", "2", "--json").json["chunks"] == [chunks[2]]
    missing = shoal("--db", library, "show", "1", "--chunk", len(chunks))
    assert missing.code == 1
    assert f"has {len(chunks)} passages, counted from #0; there is no #{len(chunks)}" in missing.err


def test_shown_text_cannot_act_on_the_terminal(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(HOSTILE + " A turn of \u202ethe text is hidden in it.", encoding="utf-8")
    shoal("ingest", note)
    assert "\u202e" in shoal("show", "1", "--json").json["chunks"][0]["text"]
    shown = shoal("show", "1", "--text").out
    assert "[bold]loudly[/bold]" in shown
    assert "A turn of the text" in shown
    assert "\x1b" not in shown


def test_one_of_a_thing_is_singular(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The jury heard the evidence.")
    assert "(1 passage) from" in shoal("ingest", note).out
    assert "1 stored, 0 duplicates" not in (again := shoal("ingest", note).out)
    assert "0 stored, 1 duplicate, 0 failed" in again
    assert "1 sentence · 1 passage ·" in shoal("show", "1").out


def test_tags_are_replaced_and_removed(shoal: Shoal, db: Path) -> None:
    assert shoal("--db", db, "tags", "1", "x, y").out == "document 1: tags x, y\n"
    assert shoal("--db", db, "show", "1", "--json").json["document"]["tags"] == ["x", "y"]
    assert shoal("--db", db, "tags", "1", "", "--json").json == {"id": 1, "tags": []}
    assert shoal("--db", db, "tags", "99", "x").code == 1


def test_a_deleted_document_is_gone(shoal: Shoal, db: Path) -> None:
    before = shoal("--db", db, "status", "--json").json
    assert shoal("--db", db, "delete", "1").out == "document 1 is deleted\n"
    after = shoal("--db", db, "status", "--json").json
    assert after["n_documents"] == before["n_documents"] - 1
    assert after["n_chunks"] < before["n_chunks"]
    assert shoal("--db", db, "delete", "1").code == 1


def test_status_reads_well_and_parses(shoal: Shoal, library: Path) -> None:
    shown = shoal("--db", library, "status").out
    assert "n documents" in shown
    assert "postings" not in shown, "nobody asks what a command that is about to end keeps in memory"
    state = shoal("--db", library, "status", "--json").json
    assert state["n_documents"] == 4
    assert state["db_path"] == str(library)


def test_export_goes_to_stdout_to_a_file_or_into_an_array(
    shoal: Shoal, library: Path, tmp_path: Path
) -> None:
    lines = shoal("--db", library, "export", "--canonical").out
    records = [json.loads(line) for line in lines.splitlines()]
    assert records
    target = tmp_path / "out.jsonl"
    ran = shoal("--db", library, "export", "--canonical", target, "--json")
    assert ran.json == {"file": str(target), "lines": len(records), "bytes": len(lines.encode())}
    assert target.read_text() == lines
    assert shoal("--db", library, "--json", "export", "--canonical").json == records
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_export_into_a_folder_that_is_not_there_is_an_error(
    shoal: Shoal, library: Path, tmp_path: Path
) -> None:
    ran = shoal("--db", library, "export", tmp_path / "no" / "where.jsonl")
    assert ran.code == 1
    assert "cannot write to" in ran.err


def test_migrate_makes_a_database_and_then_does_nothing(shoal: Shoal) -> None:
    assert shoal("--db", "new.db", "migrate", "--json").json["changed"] is True
    assert shoal("--db", "sqlite:///new.db", "migrate", "--json").json["changed"] is False
    assert "was ready already" in shoal("--db", "new.db", "migrate").out


def test_a_file_that_is_no_database_is_told(shoal: Shoal, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("this is a note, no database\n" * 200)
    ran = shoal("--db", tmp_path / "note.txt", "status")
    assert ran.code == 1
    assert "not a Shoal database" in ran.err


def test_settings_are_listed_with_value_default_and_meaning(
    shoal: Shoal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_PORT", "9001")
    (port,) = [setting for setting in shoal("settings", "--json").json if setting["name"] == "SHOAL_PORT"]
    assert (port["value"], port["default"]) == ("9001", "8000")
    assert "9001" in shoal("settings").out
    monkeypatch.setenv("SHOAL_PROT", "1")
    ran = shoal("settings")
    assert ran.code == 1
    assert "did you mean SHOAL_PORT?" in ran.err


def test_a_setting_that_is_refused_is_shown_as_it_was_written(
    shoal: Shoal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_LEARNING", "perhaps")
    monkeypatch.setenv("SHOAL_PORT", "0x50")
    assert "SHOAL_PORT='0x50': must be" in (refused := shoal("status").err)
    assert "SHOAL_LEARNING='perhaps': must be 0 or 1" in refused


def test_version_is_printed(shoal: Shoal) -> None:
    assert shoal("--version").out == shoal("version").out
    assert shoal("version", "--json").json["shoal"]


def test_an_unforeseen_error_is_told_without_a_traceback_unless_asked_for(
    shoal: Shoal, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by surprise")

    monkeypatch.setattr(Engine, "status", broken)
    ran = shoal("--db", library, "status")
    assert ran.code == 1
    assert ran.err == "error: internal error, ZeroDivisionError: by surprise; `--debug` shows where\n"
    assert "Traceback" in shoal("--db", library, "status", "--debug").err


def test_ctrl_c_is_quiet(shoal: Shoal, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "status", interrupted)
    assert shoal("--db", library, "status") == (130, "", "")


def test_a_document_is_drawn_to_a_file(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "show", 1, "--svg", "topics.svg")
    assert ran.code == 0
    assert "topics.svg" in ran.out
    picture = Path("topics.svg").read_text()
    assert picture.startswith("<svg ")
    assert "chunks by island" in picture
    assert shoal("--db", library, "show", 1, "--svg", "topics.svg", "--json").json["document_id"] == 1


def test_a_picture_that_cannot_be_written_says_so(shoal: Shoal, library: Path) -> None:
    ran = shoal("--db", library, "show", 1, "--svg", "no/such/folder.svg")
    assert ran.code == 1
    assert "cannot write to" in ran.err
    assert "Traceback" not in ran.err
    assert shoal("--db", library, "show", 999, "--svg", "topics.svg").code == 1
    assert list(Path.cwd().iterdir()) == []
