"""Damaged files in one upload through real processes: each ends by itself, and the service goes on."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks import formats_corpus, formats_damage
from benchmarks.formats_corpus import Section

SEA = (
    Section(1, "The Sea", ("Whales swim past the ships. Sailors row their boats to the shore at night.",)),
    Section(2, "Tides", ("The moon pulls the water twice a day. Harbours fill and fall dry again.",)),
)
N_FILES = 24
SUFFIXES = (".html", ".mhtml", ".eml", ".mbox", ".ipynb", ".csv", ".xlsx", ".vtt", ".pdf")


@pytest.fixture
def _only_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this program's own writers: others take seconds to start."""

    def make_files(texts: object, folder: Path) -> list[formats_corpus.Made]:
        folder.mkdir()
        writers = {**formats_corpus.WRITERS, ".pdf": formats_corpus.pdf_of_pages}
        return [writers[suffix](SEA, folder / f"sea{suffix}") for suffix in SUFFIXES]

    monkeypatch.setattr(formats_corpus, "make_files", make_files)
    monkeypatch.setattr(formats_damage, "TABLE_ROWS", 50)
    monkeypatch.setattr(formats_damage, "BOMB_BYTES", 3_000_000)


def chosen(seed: int, folder: Path) -> list[formats_damage.File]:
    """Some of each kind of damage."""
    by_kind: dict[str, list[formats_damage.File]] = {}
    for file in islice(formats_damage.damaged_files([SEA], folder, seed), 200):
        by_kind.setdefault(file[0], []).append(file)
    assert {"empty", "password", "nested archive", "truncated", "flipped bytes", "wrong suffix"} <= set(
        by_kind
    )
    return [file for files in by_kind.values() for file in files[:: max(1, len(files) // 2)]][:N_FILES]


@pytest.mark.usefixtures("_only_writers")
def test_damaged_files_harm_only_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = chosen(3, tmp_path / "some")
    monkeypatch.setattr(formats_damage, "damaged_files", lambda *_: iter(files))
    report = formats_damage.upload_damaged([SEA], tmp_path, len(files), seed=3)
    assert report.problems == []
    assert report.ends.total() == len(files)
    codes = {code for _, code in report.ends}
    assert {"stored", "empty_document", "file_encrypted"} <= codes
