from __future__ import annotations

from collections.abc import Callable

import pytest

import lagoon
from lagoon.scorer import PACKAGED_DATA, ReefScorer
from shoal.chunking.analysis import AnalyzedDocument, analyze
from shoal.formats.drafts import make_draft
from shoal.learning import EvidenceRow, discover
from shoal.settings import Settings

Observe = Callable[[str], list[EvidenceRow]]


@pytest.fixture(scope="session")
def scorer() -> ReefScorer:
    """A scorer with the packaged data, without learned words."""
    if not (PACKAGED_DATA / "manifest.json").exists():
        pytest.skip("lagoon/data has not been built")
    return lagoon.load()


@pytest.fixture(scope="session")
def analyzed(scorer: ReefScorer) -> Callable[[str], AnalyzedDocument]:
    """A function that analyzes a plain text without learned words."""
    settings = Settings()

    def analyze_text(text: str) -> AnalyzedDocument:
        draft = make_draft(content=text, title="About", format="plaintext", settings=settings)
        return analyze(draft, scorer, settings)

    return analyze_text


@pytest.fixture(scope="session")
def observe(analyzed: Callable[[str], AnalyzedDocument]) -> Observe:
    """A function that returns the observations of a plain text."""
    return lambda text: discover(analyzed(text), Settings())
