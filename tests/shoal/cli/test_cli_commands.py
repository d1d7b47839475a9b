"""The commands on a database: output, exit codes, stored data."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli.app import MODULES, run
from shoal.engine import Engine

SAMPLES = Path(__file__).parents[3] / "shoal" / "sample_corpus"
HOSTILE = (
    "The volcano erupted [bold]loudly[/bold] and \x1b[31mlava\x1b[0m result to the sea. It buried the town."
)


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, which must be exactly one JSON document."""
        return json.loads(self.out)


Shoal = Callable[..., CommandResult]


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shoal:
    """Run a command in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run_shoal(*arguments: object) -> CommandResult:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run_shoal


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of three articles and one hostile note, created once."""
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
    """A copy of the library that a test may change."""
    return Path(shutil.copy(library, tmp_path / "copy.db"))


def test_filter_selects_results_and_marks_the_place_of_an_error(shoal: Shoal, library: Path) -> None:
    searched = shoal(
        "--db", library, "search", "volcanoes and juries", "--filter", "title CONTAINS volcan", "--json"
    )
    assert {each["document_title"] for each in json.loads(searched.out)["results"]} == {"Volcanoes"}
    listed = shoal(
        "--db", library, "list", "--filter", "tags = sample AND source_path CONTAINS bees", "--json"
    )
    assert json.loads(listed.out)["total"] == 1
    refused = shoal("--db", library, "search", "x", "--filter", "tags = sample AND titel = x")
    assert refused.code == 2
    line, excerpt, mark = refused.err.splitlines()
    assert line.startswith("error: --filter: character 19: there is no field titel; did you mean title?")
    assert excerpt[mark.index("^") : mark.rindex("^") + 1] == "titel"
    explained = shoal(
        "--db",
        library,
        "explain",
        "lava",
        "--document",
        "1",
        "--filter",
        "tags = sample AND id > 99",
        "--json",
    )
    (reason,) = json.loads(explained.out)["target"]["kept_out"]
    assert reason["message"] == "it does not meet the filter id > 99"


def test_suggest_completes_the_beginning_of_a_query(shoal: Shoal, library: Path) -> None:
    answer = shoal("--db", library, "--json", "suggest", "vol", "--limit", "3").json
    assert 0 < len(answer["suggestions"]) <= 3
    assert answer["suggestions"][0]["text"] in shoal("--db", library, "suggest", "vol").out


def test_similarity_says_how_similar_texts_are_and_why(shoal: Shoal, library: Path) -> None:
    texts = "Use tabs, not spaces", "Use spaces, not tabs"
    assert shoal("--db", library, "--json", "similarity", *texts).json["is_opposite"]
    shown = shoal("--db", library, "similarity", *texts).out
    assert "may contradict each other" in shown
    assert "profile" in shown
    assert "duplicates" in shoal("--db", library, "similarity", "the lava", "The LAVA").out
    refused = shoal("--db", library, "similarity", "...", "lava")
    assert (refused.code, refused.err) == (2, "error: A: must have a word or a number\n")


def test_command_without_arguments_shows_the_help(shoal: Shoal) -> None:
    result = shoal()
    assert result.code == 0
    assert "ingest-dir" in result.out
    assert "shoal search" in result.out


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
def test_wrong_usage_exits_with_2_and_a_reason_and_creates_no_database(
    shoal: Shoal, arguments: list[str]
) -> None:
    result = shoal(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Error: " in result.err
    assert "Traceback" not in result.err
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "1000"], "--top-k: must be between 1 and 100"),
        (["--mode", "sideways"], "--mode: 'sideways' is not one of"),
        (["--mode", "dense"], "--mode: dense needs an encoder"),
        (["--preset", "bold"], "--preset: 'bold' is not one of"),
        (["--rerank", "101"], "--rerank"),
        (["--top-k", "x"], "'x' is not a whole number"),
        (["--min-confidence", "x"], "'x' is not a number"),
        (["--min-relevance", "x"], "'x' is not a number"),
    ],
)
def test_invalid_search_names_the_option(
    shoal: Shoal, library: Path, arguments: list[str], message: str
) -> None:
    result = shoal("--db", library, "search", "bees", *arguments)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(
    "command", [["search", "bees"], ["show", "1"], ["delete", "1"], ["tags", "1", "a"], ["export"]]
)
def test_reading_commands_do_not_create_a_database(shoal: Shoal, command: list[str]) -> None:
    result = shoal("--db", "misspelt.db", *command)
    assert result.code == 1
    assert "there is no database" in result.err
    assert "misspelt.db" in result.err
    assert not Path("misspelt.db").exists()


def test_status_without_a_database_is_all_zeros(shoal: Shoal) -> None:
    result = shoal("status", "--json")
    assert result.code == 0
    assert result.json["n_documents"] == result.json["n_chunks"] == 0
    assert list(Path.cwd().iterdir()) == []


def test_ingest_reports_every_file_and_stores_the_good_ones(shoal: Shoal, tmp_path: Path) -> None:
    good = tmp_path / "bees.md"
    good.write_text("# Bees\n\nA bee gathers nectar from flowers. The hive stores honey for the winter.\n")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    result = shoal(
        "ingest", good, tmp_path / "empty.txt", tmp_path / "picture.txt", tmp_path / "gone.txt", tmp_path
    )
    assert result.code == 1
    assert "1 stored, 0 duplicates, 4 failed" in result.out
    for name in ("empty.txt", "picture.txt", "gone.txt"):
        assert f"failed: {tmp_path / name}: " in result.err
    assert "ingest-dir" in result.err
    assert shoal("status", "--json").json["n_documents"] == 1
    failed = shoal("ingest", tmp_path)
    assert failed.out.splitlines()[-1] == "0 stored, 0 duplicates, 1 failed"
    assert shoal("ingest", tmp_path / "picture.txt", "--json").json["bytes"] == 0


def test_stored_file_is_a_duplicate_and_its_tags_are_added(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The jury heard the evidence. The judge explained the law to them.")
    first = shoal("ingest", note, "--tags", "law, court", "--title", "A Trial", "--json").json["results"][0]
    assert (first["title"], first["tags"], first["duplicate"]) == ("A Trial", ["law", "court"], None)
    again = shoal("ingest", note, "--tags", "jury")
    assert again.code == 0
    assert f"already stored as document {first['id']}" in again.out
    detail = shoal("show", first["id"], "--json").json
    assert set(detail["document"]["tags"]) == {"law", "court", "jury"}


@pytest.mark.parametrize("workers", [1, 2])
def test_ingest_dir_stores_every_text_below_and_names_the_bad_file(
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
    (folder / "empty.md").write_bytes(b" \n")
    (folder / "broken.txt").write_bytes(b"\xff\xfe\x00\x00\x80\x81\x82" * 10)
    (folder / ".git" / "hidden.txt").write_text("not to be read")
    (folder / "image.png").write_bytes(b"not a text")
    result = shoal("ingest-dir", folder, "--tags", "a,b", "--workers", workers, "--json")
    assert result.code == 1
    assert (result.json["stored"], result.json["duplicates"], result.json["failed"]) == (6, 0, 1)
    by_name = {Path(outcome["path"]).name: outcome for outcome in result.json["results"]}
    assert set(by_name) == {"0.txt", "1.txt", "2.txt", "3.txt", "4.txt", "up.MARKDOWN", "broken.txt"}
    assert by_name["broken.txt"]["error"]
    assert by_name["0.txt"]["tags"] == ["a", "b"]
    assert f"failed: {folder / 'broken.txt'}: " in result.err
    assert f"skipped: {folder / 'empty.md'}: it has no text" in result.err
    assert f"skipped: {folder / 'image.png'}: this is an image; " in result.err
    assert f"skipped: {folder / '.git'}" not in result.err
    assert f"skipped: {folder / 'bad.md'}: this is a file of unknown type that is not text; " in result.err
    assert "4 skipped: 1 by content (1 a file of unknown type that is not text), 1 empty, 1 hid" in result.err
    assert [(Path(entry["path"]).name, entry["reason"]) for entry in result.json["skipped"]] == [
        (".git", "hidden"),
        ("bad.md", "content"),
        ("empty.md", "empty"),
        ("image.png", "kind"),
    ]
    again = shoal("ingest-dir", folder, "--workers", workers, "--no-recursive")
    assert again.code == 1
    assert "0 stored, 0 duplicates, 1 failed" in again.out
    known = shoal("ingest-dir", folder / "deep", "--no-recursive").out.splitlines()
    stored = f"is already stored as document {by_name['3.txt']['id']}"
    assert f"duplicate: {folder / 'deep' / '3.txt'} {stored}" in known
    assert known[-1].startswith("0 stored, 5 duplicates")


def test_a_folder_of_empty_files_is_no_failure(shoal: Shoal, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(25):
        (folder / f"{number:02}.py").write_text("")
    result = shoal("ingest-dir", folder)
    assert result.code == 0
    assert result.err.count("it has no text") == 20
    assert "and 5 more; --verbose names them\n25 skipped: 25 empty" in result.err
    assert shoal("ingest-dir", folder, "--verbose").err.count("it has no text") == 25


def test_folder_is_stored_again_with_replaced_documents(shoal: Shoal) -> None:
    folder = Path("notes")
    folder.mkdir()
    (folder / "a.txt").write_text("The volcano threw out lava and ash for days.")
    (folder / "b.txt").write_text("The bees fly to the flower and carry pollen home.")
    first = shoal("ingest-dir", folder, "--on-conflict", "replace", "--json")
    (folder / "a.txt").write_text("The judge asked the jury for a verdict in court.")
    again = shoal("ingest-dir", folder, "--on-conflict", "replace", "--json")
    assert (again.json["stored"], again.json["duplicates"], again.json["failed"]) == (1, 1, 0)
    ids = [[outcome["id"] for outcome in result.json["results"]] for result in (first, again)]
    assert ids[0] == ids[1]
    assert shoal("ingest-dir", folder, "--on-conflict", "merge").code == 2


def test_folder_without_texts_is_an_error(shoal: Shoal) -> None:
    for name in ("a.png", "b.png", "c.MP3", "LICENSE", ".hidden.md"):
        Path(name).write_bytes(b"not a text")
    result = shoal("ingest-dir", ".")
    assert result.code == 1
    assert (
        "there is no file to read in .; 5 skipped: 3 of a kind without text (2 .png, 1 .mp3), 1 hidden, "
        "1 of unknown kind (1 without extension)" in result.err
    )


def test_results_show_document_headings_lines_and_reef(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "search", "how bees pollinate flowers", "--top-k", "2")
    assert result.code == 0
    assert result.out.startswith("1. Bees and Pollination")
    assert re.search(r", lines? \d+", result.out)
    assert "about " in result.out
    assert "Reefs searched for:" not in result.out
    assert "passage z" not in result.out


@pytest.mark.parametrize("heading", ["Bees", "Title: Bees"])
def test_heading_that_repeats_the_title_is_not_cited(shoal: Shoal, heading: str) -> None:
    Path("bees.md").write_text(f"# {heading}\n\nBees gather nectar.\n\n## Wax\n\nBees build combs.\n")
    shoal("ingest", "bees.md", "--title", "Bees")
    title, why, section, *_ = shoal("search", "combs", "--mode", "lexical").out.splitlines()
    assert title.startswith("1. Bees ")
    assert why.strip() == "holds combs"
    assert section.strip() == "Wax"


def test_scores_name_the_reasons_and_sum_up_the_background(shoal: Shoal, library: Path) -> None:
    arguments = ["--db", library, "search", "how bees pollinate flowers", "--top-k", "1"]
    output = shoal(*arguments, "--scores").out
    shared = shoal(*arguments, "--json").json["results"][0]["shared_reefs"]
    reasons = [reef for reef in shared if reef["is_reason"]]
    background = [reef for reef in shared if not reef["is_reason"]]
    assert reasons
    assert background
    # A narrow terminal folds the cells.
    table = " ".join(output[output.index("shared topics") :].split())
    rows = table.split(" in the background ")[0]
    for reef in reasons:
        assert reef["query_words"][0] in rows
        assert reef["passage_words"][0] in rows
        assert f"{reef['share']:.2f}" in rows
    total = sum(reef["share"] for reef in background)
    assert f" in the background {len(background)} shared reefs {total:.2f}" in table


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "how bees pollinate flowers", "--scores", "--max-per-document", "1"],
        ["explain", "how bees pollinate flowers", "--document", "1"],
        ["show", "1"],
        ["show", "1", "--text"],
        ["list"],
        ["status"],
        ["doctor"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_output_for_people_says_passage_and_never_chunk(
    shoal: Shoal, library: Path, arguments: list[str]
) -> None:
    result = shoal("--db", library, *arguments)
    assert result.code == 0
    assert "chunk" not in (result.out + result.err).lower()
    assert "chunk" in shoal("--db", library, "status", "--json").out, "JSON keeps its field names"


@pytest.mark.parametrize("command", [name for names in MODULES.values() for name in names])
def test_help_says_chunk_only_in_names(shoal: Shoal, command: str) -> None:
    text = shoal(command, "--help").out
    values = r"chunk,note|chunk/document|\(chunk\)|\[default:\s*chunk\]"
    assert "chunk" not in re.sub(rf"--chunk(-id)?|`chunk_id`|{values}", "", text).lower()


@pytest.mark.parametrize("before", [True, False])
def test_json_option_works_before_and_after_the_command(shoal: Shoal, library: Path, before: bool) -> None:
    options = ["--json", "--db", library]
    rest = ["search", "volcano", "--tags", "sample"]
    result = shoal(*options, *rest) if before else shoal(*rest, *options)
    assert result.code == 0
    assert result.json["results"]
    assert {"results", "query_info", "trace_id", "took_ms", "warnings"} <= set(result.json)


def test_page_of_a_search_is_full_without_a_limit_per_document(shoal: Shoal, library: Path) -> None:
    def found(*options: str) -> list[int]:
        search = shoal(
            "--db", library, "search", "how bees pollinate flowers", "--top-k", "40", *options, "--json"
        )
        assert search.json["warnings"] == []
        return [result["chunk_id"] for result in search.json["results"]]

    everything = found("--max-per-document", "0")
    assert sorted(found()) == sorted(everything)
    assert len(found("--max-per-document", "1")) < len(everything)


def test_search_says_how_many_passages_match(shoal: Shoal, library: Path) -> None:
    search = ["--db", library, "search", "how bees pollinate flowers"]
    everything = shoal(*search, "--json", "--top-k", "100").json
    n, limited = len(everything["results"]), [*search, "--top-k", "5", "--max-per-document", "1"]
    assert everything["total"] == n
    assert f"2 of {n} matches in " in shoal(*search, "--top-k", "2").out
    note = "at most 1 passage per document; --max-per-document 0 removes the limit"
    assert note in shoal(*search, "--top-k", "40", "--max-per-document", "1").out
    # No note if there are `top_k` results, or fewer for another reason.
    for options in (
        ("--top-k", "2", "--max-per-document", "1"),
        ("--top-k", "40", "--max-per-document", "40"),
    ):
        assert "at most" not in shoal(*search, *options).out
    documents = shoal(*search, "--group-by", "document", "--top-k", "1", "--json").json["total_documents"]
    assert (
        f"1 of {documents} documents with {n} matches"
        in shoal(*limited[:-2], "--group-by", "document", "--top-k", "1").out
    )


def test_search_without_results_succeeds(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "search", "volcano", "--tags", "no such tag")
    assert result.code == 0
    assert "Nothing found" in result.out


def test_search_in_an_empty_database_prints_a_warning(shoal: Shoal) -> None:
    shoal("migrate")
    result = shoal("search", "volcano")
    assert result.code == 0
    assert "the database holds no documents" in result.err


def test_search_output_has_no_escapes_of_the_document(shoal: Shoal, library: Path) -> None:
    options = ("--top-k", "40", "--max-per-document", "40", "--scores")
    result = shoal("--db", library, "search", "volcano lava", *options)
    assert "[bold]loudly[/bold]" in result.out.replace("\n   ", " ")
    assert "\x1b" not in result.out
    assert "\\u001b" not in shoal("--db", library, "search", "volcano", "--json").out


def test_error_with_json_is_printed_on_both_streams(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "show", "999", "--json")
    assert result.code == 1
    assert result.json == {"error": "there is no document 999"}
    assert result.err == "error: there is no document 999\n"


def test_explain_lists_the_words_with_status_and_notes(shoal: Shoal, library: Path) -> None:
    query = "how do bees qqqwwweee"
    result = shoal("--db", library, "explain", query)
    assert result.code == 0
    for word in ("bees", "qqqwwweee", "unknown", "Numbers: what the word adds"):
        assert word in result.out
    assert "Numbers:" not in shoal("--db", library, "explain", "qqqwwweee").out
    assert shoal("--db", library, "explain", query, "--json").json


def test_explain_shows_the_rank_of_a_document(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "explain", "bees", "--document", "1")
    assert result.code == 0
    assert "document 1" in result.out
    first = shoal("--db", library, "search", "bees", "--json").json["results"][0]
    sentence = first["why"].replace("*", "")
    assert first["document_id"] == 1
    assert sentence in " ".join(result.out.split())
    alone = shoal("--db", library, "explain", "bees").out
    assert f"First is {first['document_title']}: {sentence}" in " ".join(alone.split())
    missing = shoal("--db", library, "explain", "bees", "--document", "99")
    assert missing.code == 1
    assert "there is no document 99" in missing.err


def test_show_lists_sections_and_lines(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "show", "1")
    assert result.code == 0
    assert "Bees and Pollination" in result.out
    assert "#0" in result.out
    document = shoal("--db", library, "show", "1", "--json").json
    content = (SAMPLES / "bees-and-pollination.md").read_text()
    for chunk in document["chunks"]:
        assert content[chunk["start_char"] : chunk["end_char"]] == chunk["text"]


def test_show_and_search_say_what_a_passage_is_about(
    shoal: Shoal, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    command = ("--db", library, "search", "bees", "--top-k", "1")
    chunk = shoal("--db", library, "show", "1", "--chunk", "0", "--json").json["chunks"][0]
    labels = ", ".join(label["reef_name"] for label in chunk["labels"])
    assert labels
    assert f"#0           3-3  {labels}\n" in shoal("--db", library, "show", "1").out.replace(" \n", "\n")
    strongest = chunk["reefs"][0]
    with_reefs = f"{strongest['reef_name']} {strongest['z_score']:.1f}"
    assert with_reefs not in shoal("--db", library, "show", "1").out
    assert with_reefs in shoal("--db", library, "show", "1", "--reefs", "1").out
    [result] = shoal(*command, "--json").json["results"]
    assert f"about {', '.join(label['reef_name'] for label in result['labels'])} · " in shoal(*command).out
    monkeypatch.setenv("SHOAL_LABEL_THRESHOLD", "1")
    assert shoal("--db", library, "show", "1", "--json").json["chunks"][0]["labels"] == []
    assert labels not in shoal("--db", library, "show", "1").out
    assert "no clear subject" in shoal("--db", library, "show", "1").out
    results = shoal(*command).out
    assert "no clear subject · " in results
    assert "about " not in results


def test_show_prints_the_text_of_all_passages_or_one(shoal: Shoal, library: Path) -> None:
    chunks = shoal("--db", library, "show", "1", "--json").json["chunks"]
    all_passages = shoal("--db", library, "show", "1", "--text").out
    assert all(chunk["text"].rstrip() in all_passages for chunk in chunks)
    single_passage = shoal("--db", library, "show", "1", "--chunk", "2").out
    assert [chunk["chunk_index"] for chunk in chunks if chunk["text"].rstrip() in single_passage] == [2]
    assert shoal("--db", library, "show", "1", "--chunk", "2", "--json").json["chunks"] == [chunks[2]]
    missing = shoal("--db", library, "show", "1", "--chunk", len(chunks))
    assert missing.code == 1
    assert f"has {len(chunks)} passages, counted from #0; there is no #{len(chunks)}" in missing.err


def test_show_output_has_no_escapes_of_the_document(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(HOSTILE + " A turn of \u202ethe text is hidden in it.", encoding="utf-8")
    shoal("ingest", note)
    assert "\u202e" in shoal("show", "1", "--json").json["chunks"][0]["text"]
    output = shoal("show", "1", "--text").out
    assert "[bold]loudly[/bold]" in output
    assert "A turn of the text" in output
    assert "\x1b" not in output


def test_quantity_of_one_is_singular(shoal: Shoal, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The jury heard the evidence.")
    assert "(1 passage) from" in shoal("ingest", note).out
    assert "1 stored, 0 duplicates" not in (again := shoal("ingest", note).out)
    assert "0 stored, 1 duplicate, 0 failed" in again
    assert "1 sentence · 1 passage ·" in shoal("show", "1").out


def test_all_tags_are_replaced_or_removed(shoal: Shoal, db: Path) -> None:
    assert shoal("--db", db, "tags", "1", "x, y").out == "document 1: tags x, y\n"
    assert shoal("--db", db, "show", "1", "--json").json["document"]["tags"] == ["x", "y"]
    assert shoal("--db", db, "tags", "1", "", "--json").json == {"id": 1, "tags": []}
    assert shoal("--db", db, "tags", "99", "x").code == 1


def test_deleted_document_is_gone(shoal: Shoal, db: Path) -> None:
    before = shoal("--db", db, "status", "--json").json
    assert shoal("--db", db, "delete", "1").out == "document 1 is deleted\n"
    after = shoal("--db", db, "status", "--json").json
    assert after["n_documents"] == before["n_documents"] - 1
    assert after["n_chunks"] < before["n_chunks"]
    assert shoal("--db", db, "delete", "1").code == 1


def test_status_is_printed_as_text_and_as_json(shoal: Shoal, library: Path) -> None:
    output = shoal("--db", library, "status").out
    assert "n documents" in output
    assert "n passages" in output
    status = shoal("--db", library, "status", "--json").json
    assert status["n_documents"] == 4
    assert status["db_path"] == str(library)


def test_export_writes_to_stdout_to_a_file_or_as_an_array(
    shoal: Shoal, library: Path, tmp_path: Path
) -> None:
    lines = shoal("--db", library, "export", "--canonical").out
    records = [json.loads(line) for line in lines.splitlines()]
    assert records
    target = tmp_path / "out.jsonl"
    result = shoal("--db", library, "export", "--canonical", target, "--json")
    assert result.json == {"file": str(target), "lines": len(records), "bytes": len(lines.encode())}
    assert target.read_text() == lines
    assert shoal("--db", library, "--json", "export", "--canonical").json == records
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_export_to_a_missing_folder_is_an_error(shoal: Shoal, library: Path, tmp_path: Path) -> None:
    result = shoal("--db", library, "export", tmp_path / "no" / "where.jsonl")
    assert result.code == 1
    assert "cannot write to" in result.err


def test_migrate_creates_a_database_and_then_does_nothing(shoal: Shoal) -> None:
    assert shoal("--db", "new.db", "migrate", "--json").json["changed"] is True
    assert shoal("--db", "sqlite:///new.db", "migrate", "--json").json["changed"] is False
    assert "was already up to date" in shoal("--db", "new.db", "migrate").out


def test_file_that_is_not_a_database_is_an_error(shoal: Shoal, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("this is a note, no database\n" * 200)
    result = shoal("--db", tmp_path / "note.txt", "status")
    assert result.code == 1
    assert "not a Shoal database" in result.err


def test_settings_are_listed_with_value_default_and_meaning(
    shoal: Shoal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_PORT", "9001")
    (port,) = [setting for setting in shoal("settings", "--json").json if setting["name"] == "SHOAL_PORT"]
    assert (port["value"], port["default"]) == ("9001", "8000")
    assert "9001" in shoal("settings").out
    monkeypatch.setenv("SHOAL_PROT", "1")
    result = shoal("settings")
    assert result.code == 1
    assert "did you mean SHOAL_PORT?" in result.err


def test_invalid_setting_is_shown_as_written(shoal: Shoal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LEARNING", "perhaps")
    monkeypatch.setenv("SHOAL_PORT", "0x50")
    errors = shoal("status").err
    assert "SHOAL_PORT='0x50': must be" in errors
    assert "SHOAL_LEARNING='perhaps': must be 0 or 1" in errors


def test_version_is_printed(shoal: Shoal) -> None:
    assert shoal("--version").out == shoal("version").out
    assert shoal("version", "--json").json["shoal"]


def test_internal_error_has_a_traceback_only_with_debug(
    shoal: Shoal, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by surprise")

    monkeypatch.setattr(Engine, "status", broken)
    result = shoal("--db", library, "status")
    assert result.code == 1
    assert result.err == "error: internal error, ZeroDivisionError: by surprise; `--debug` shows where\n"
    assert "Traceback" in shoal("--db", library, "status", "--debug").err


def test_ctrl_c_prints_nothing(shoal: Shoal, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "status", interrupted)
    assert shoal("--db", library, "status") == (130, "", "")


def test_document_is_drawn_to_a_file(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "show", 1, "--svg", "topics.svg")
    assert result.code == 0
    assert "topics.svg" in result.out
    picture = Path("topics.svg").read_text()
    assert picture.startswith("<svg ")
    assert "passages by island" in picture
    assert shoal("--db", library, "show", 1, "--svg", "topics.svg", "--json").json["document_id"] == 1


def test_picture_that_cannot_be_written_is_an_error(shoal: Shoal, library: Path) -> None:
    result = shoal("--db", library, "show", 1, "--svg", "no/such/folder.svg")
    assert result.code == 1
    assert "cannot write to" in result.err
    assert "Traceback" not in result.err
    assert shoal("--db", library, "show", 999, "--svg", "topics.svg").code == 1
    assert list(Path.cwd().iterdir()) == []
