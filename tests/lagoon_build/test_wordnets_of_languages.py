"""The wordnets of languages: their builder, and the files that come with the project."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import pytest

from lagoon.build.wordnets import (
    MAX_BYTES,
    OUTPUT,
    SOURCES,
    Senses,
    licences,
    senses_of_table,
    synset_number,
    write_distribution,
)
from lagoon.errors import LagoonError
from lagoon.wordnets import FILE, WORDNETS, load_wordnet, read_installed, read_wordnet_file

TABLE = "00000012-n\tΒροχή\n00000012-n\tόμβρος\n00000034-v\tβροχή\n00000034-v\tβρέχει_πολύ\n"


def test_table_has_words_senses_and_shares(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "ell.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write(TABLE)
    rain, pour = synset_number(12, "n"), synset_number(34, "v")
    senses = list(senses_of_table(tmp_path / "ell.tsv.gz", {rain: 8}))
    assert write_distribution(tmp_path / "el", "el", senses, "licence\n") == 3
    with (tmp_path / "el" / "lagoon_data_el" / FILE).open("rb") as stream:
        wordnet = read_wordnet_file(stream)
    assert wordnet.words == ("βρεχει πολυ", "βροχη", "ομβρος")
    # The square root of the tag count plus one half.
    shares = dict(wordnet.senses(wordnet.places["βροχη"]))
    assert list(shares) == [rain, pour]
    assert shares[rain] == pytest.approx(8.5**0.5 / (8.5**0.5 + 0.5**0.5), abs=0.003)
    assert [word for word, _ in wordnet.words_of(rain)] == ["βροχη", "ομβρος"]
    assert list(wordnet.words_of(pour + 1)) == []


def test_licences_are_those_of_their_tables(tmp_path: Path) -> None:
    path = tmp_path / "LICENSES.md"
    path.write_text("# All\n\n## ell\nApache\n\n## (1) no table\nmore\n\n## cmn\nwordnet\n", encoding="utf-8")
    assert licences(path) == {"ell": "Apache\n\n## (1) no table\nmore\n", "cmn": "wordnet\n"}


def test_damaged_wordnet_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lagoon_data_el"
    package.mkdir()
    (package / FILE).write_bytes(b"PK\x03\x04 not a table")
    monkeypatch.syspath_prepend(str(tmp_path))
    read_installed.cache_clear()
    with pytest.raises(LagoonError, match="lagoon-data-el is damaged"):
        load_wordnet("el")
    read_installed.cache_clear()


def test_a_wordnet_is_found_once_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_installed.cache_clear()
    assert load_wordnet("it") is None
    write_distribution(tmp_path, "it", [("pioggia", Senses(1, 1))], "licence\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    wordnet = load_wordnet("it")
    assert wordnet is not None
    assert wordnet.words == ("pioggia",)
    assert load_wordnet("it") is wordnet
    read_installed.cache_clear()


def test_each_language_has_a_distribution_with_its_licence() -> None:
    assert frozenset(SOURCES) == WORDNETS
    assert {folder.name for folder in OUTPUT.iterdir()} == WORDNETS
    notice = (OUTPUT.parent / "NOTICE").read_text(encoding="utf-8")
    for code, source in SOURCES.items():
        project = tomllib.loads((OUTPUT / code / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert (project["name"], project["license"]) == (f"lagoon-data-{code}", source.licence)
        assert (OUTPUT / code / "LICENSE").read_text(encoding="utf-8").strip()
        assert (OUTPUT / code / f"lagoon_data_{code}" / FILE).stat().st_size <= MAX_BYTES
        assert source.name in notice
