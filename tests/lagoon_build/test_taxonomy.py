"""The hand-written list of reefs is complete, and mistakes in it are reported."""

from collections import Counter
from pathlib import Path

import pytest

from lagoon.build.reefs import ARCHIPELAGOS, TaxonomyError, read_taxonomy

ISLAND = """
[[island]]
name = "plant life"
archipelago = "natural sciences & taxonomy"
reefs."flowering plants" = "flower leaf plant botany shrub petal herb fern"
"""


def write_list(folder: Path, text: str) -> Path:
    path = folder / "reefs.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_taxonomy_has_the_specified_sizes() -> None:
    taxonomy = read_taxonomy()
    assert (len(taxonomy.reefs), len(taxonomy.islands), len(ARCHIPELAGOS)) == (207, 52, 4)
    sizes = Counter(reef.island for reef in taxonomy.reefs)
    assert sorted(sizes) == list(range(52))
    assert min(sizes.values()) >= 2
    assert {island.archipelago for island in taxonomy.islands} == {0, 1, 2, 3}


def test_a_typical_word_belongs_to_at_most_two_reefs() -> None:
    uses = Counter(word for reef in read_taxonomy().reefs for word in reef.anchors)
    assert max(uses.values()) <= 2


def test_a_small_list_is_read_in_order(tmp_path: Path) -> None:
    taxonomy = read_taxonomy(write_list(tmp_path, ISLAND))
    assert [island.name for island in taxonomy.islands] == ["plant life"]
    assert taxonomy.reefs[0].anchors[:2] == ("flower", "leaf")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("natural sciences & taxonomy", "nature", "unknown archipelago"),
        ("flowering plants", "plants", "2 to 4 words"),
        ("flowering plants", "plant life", "is the name of 2"),
        (" herb fern", "", "fewer than 8"),
        ("[[island]]", "[island", "not a list of islands"),
        ("archipelago =", "group =", "not a list of islands"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        read_taxonomy(write_list(tmp_path, ISLAND.replace(old, new)))


def test_islands_of_an_archipelago_must_be_consecutive(tmp_path: Path) -> None:
    other = ISLAND.replace("natural sciences & taxonomy", "social order & assessment")
    other = other.replace("plant life", "law and crime").replace("flowering plants", "court procedure")
    assert len(read_taxonomy(write_list(tmp_path, ISLAND + other)).reefs) == 2
    with pytest.raises(TaxonomyError, match="must be consecutive"):
        read_taxonomy(write_list(tmp_path, other + ISLAND))
