from __future__ import annotations

from collections.abc import Callable

import pytest

from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import analyze
from shoal.formats.drafts import make_draft
from shoal.learning import EvidenceRow, Kind, discover
from shoal.settings import Settings

Observe = Callable[..., dict[str, EvidenceRow]]


@pytest.fixture(scope="session")
def words(scorer: ReefScorer) -> Observe:
    """Rows of the unknown words of a markdown document."""

    def observe(content: str, title: str = "About", heading_weight: float = 1.0) -> dict[str, EvidenceRow]:
        settings = Settings(heading_weight=heading_weight)
        draft = make_draft(content=content, title=title, format="markdown", settings=settings)
        rows = discover(analyze(draft, scorer, settings), settings)
        return {row.word: row for row in rows if row.kind == Kind.word}

    return observe


def test_a_word_of_the_title_occurs_once(words: Observe) -> None:
    content = "# Ships\n\nSailors sail.\n\n# Banks\n\nMoney is lent.\n"
    rows = words(content, title="The zorblax's voyage")
    assert rows["zorblax"].n_occurrences == 1
    assert rows["zorblax"].n_chunks == 1


def test_a_heading_word_occurs_once_for_any_number_of_subsections(words: Observe) -> None:
    content = (
        "# The zorblax\n\nShips.\n\n## Sails\n\nSailors sail.\n\n## Ropes\n\nRopes hold.\n\n# Banks\n\nMoney.\n\n"
        "# Again the zorblax\n\nHarbours.\n"
    )
    assert words(content)["zorblax"].n_occurrences == 2


def test_heading_words_do_not_count_if_the_first_sentence_has_them(words: Observe) -> None:
    content = "# The zorblax\n\nThe zorblax sails. Sailors know it. A zorblax is a ship.\n"
    assert words(content)["zorblax"].n_occurrences == 2
    content = "# The zorblax\n\nSailors sail. Sailors know it. A zorblax is a ship.\n"
    assert words(content)["zorblax"].n_occurrences == 2


def test_the_context_of_a_heading_word_is_its_section(words: Observe, scorer: ReefScorer) -> None:
    content = (
        "# The zorblax\n\nShips sail the ocean. Sailors leave the harbour.\n\n"
        "# The quimble\n\nThe bank lends money. Interest is a price.\n"
    )
    rows = words(content)
    for word, context in (
        ("zorblax", "ship sail ocean sailor harbour"),
        ("quimble", "bank money interest price"),
    ):
        row = rows[word]
        strongest = max(zip(row.sums, row.reefs, strict=True))[1]
        assert strongest in [reef.reef_id for reef in scorer.score(context).top_reefs[:5]]


def test_headings_without_weight_give_no_observations(words: Observe) -> None:
    assert "zorblax" in words("# The zorblax\n\nSailors sail.\n")
    assert "zorblax" not in words("# The zorblax\n\nSailors sail.\n", heading_weight=0.0)
