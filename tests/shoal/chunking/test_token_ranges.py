"""Chunks within a range of tokens end at the best changes of topic that the range allows."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

import lagoon
from shoal.chunking.analysis import cut, score_document
from shoal.chunking.token_ranges import SentenceSizes, cut_in_range
from shoal.formats.drafts import make_draft
from shoal.models.documents import ScoredDocument, SentenceSpan
from shoal.models.files import TokenRange
from shoal.settings import Settings
from shoal.support.token_estimate import count_tokens


def spans(lengths: list[int]) -> tuple[str, list[SentenceSpan]]:
    """A text of sentences with so many tokens each."""
    content, found = "", []
    for length in lengths:
        start = len(content)
        content += "a " * (length - 1) + "a"
        found.append(SentenceSpan(start, len(content), 0))
        content += " "
    return content, found


def cut_lengths(lengths: list[int], cosines: list[float], tokens: str, **changes: Any) -> list[int]:
    wanted = TokenRange.of(tokens)
    assert wanted is not None
    arguments: dict[str, Any] = {"headings": [], "forced": [0], **changes}
    return cut_in_range(SentenceSizes(*spans(lengths)), np.array(cosines), tokens=wanted, **arguments)


def scored(content: str, tokens: str = "60-130", **fields: Any) -> ScoredDocument:
    draft = make_draft(content=content, chunk_tokens=tokens, settings=Settings(), **fields)
    return score_document(draft, FakeScorer(), Settings())


def test_cuts_are_at_the_lowest_similarity_that_the_range_allows() -> None:
    cosines = [0.9, 0.9, 0.1, 0.9, 0.9, 0.2, 0.9, 0.9]
    assert cut_lengths([20] * 9, cosines, "40-80") == [0, 3, 6]
    # The dip after the first sentence would leave a chunk that is too short.
    assert cut_lengths([20] * 8, [0.0, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9], "60-120") == [0, 4]


def test_a_heading_is_a_better_place_than_a_similar_gap() -> None:
    cosines = [0.5, 0.51, 0.5, 0.49, 0.5, 0.5, 0.5]
    assert cut_lengths([20] * 8, cosines, "60-120") == [0, 4]
    assert cut_lengths([20] * 8, cosines, "60-120", headings=[0, 5]) == [0, 5]


def test_a_chunk_begins_where_it_must() -> None:
    assert cut_lengths([20] * 6, [0.5] * 5, "60-120", forced=[0, 1]) == [0, 1]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=10),
    st.lists(st.floats(-1, 1), min_size=10, max_size=10),
    st.sampled_from(["60-120", "20-50", "60-500"]),
)
def test_no_other_cut_has_fewer_chunks_outside_the_range(
    lengths: list[int], cosines: list[float], tokens: str
) -> None:
    low, high = TokenRange.of(tokens) or (0, 0)
    sizes = SentenceSizes(*spans(lengths))
    n = len(lengths)

    def n_outside(firsts: tuple[int, ...]) -> int | None:
        """None for a cut with a chunk that is too long and could be cut."""
        chunks = [(int(sizes.of(first, end)), end - first) for first, end in pairwise([*firsts, n])]
        if any(size > high and n_sentences > 1 for size, n_sentences in chunks):
            return None
        return sum(not low <= size <= high for size, _ in chunks)

    cuts = ((0, *others) for k in range(n) for others in combinations(range(1, n), k))
    fewest = min(outside for each in cuts if (outside := n_outside(each)) is not None)
    assert n_outside(tuple(cut_lengths(lengths, cosines[: n - 1], tokens))) == fewest


def test_sections_are_joined_and_all_their_headings_count() -> None:
    text = "\n\n".join(f"## Part {n}\n\nA volcano throws lava, and ash falls on the rock." for n in range(30))
    document = scored(text, format="markdown")
    sizes = [count_tokens(chunk.text) for chunk in document.chunks]
    assert all(60 <= size <= 130 for size in sizes), sizes
    for chunk in document.chunks:
        assert text[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.text.startswith("A volcano")
    again = cut(document.draft, [chunk.start_char for chunk in document.chunks], Settings())
    assert again is not None
    assert len(again.contexts[0].split("\n\n")) == document.chunks[1].section


def test_a_text_that_is_shorter_than_the_range_is_cut_by_default() -> None:
    text = "# Nature\n\nA volcano throws lava. Magma rises.\n\n# Law\n\nThe jury heard the judge."
    assert [chunk.text for chunk in scored(text, "300-800", format="markdown").chunks] == [
        chunk.text for chunk in scored(text, "any", format="markdown").chunks
    ]


def test_texts_without_full_stops_and_long_code_keep_to_the_range() -> None:
    words = "volcano lava ash rock " * 400
    for content, tokens in ((words, "300-800"), (f"```\n{words}\n```\n", "60-130")):
        low, high = TokenRange.of(tokens) or (0, 0)
        document = scored(content, tokens, format="markdown")
        assert all(low <= count_tokens(chunk.text) <= high for chunk in document.chunks)


def test_the_scorer_finds_the_gap_between_topics() -> None:
    sea = "The tide rises and falls with the moon. Waves break on the shore of the ocean. "
    law = "The judge asked the jury for a verdict. The witness gave evidence in the court. "
    cosines = lagoon.load().gap_cosines(sea * 3 + law * 3)
    assert len(cosines) == 11
    assert int(cosines.argmin()) == 5
    assert lagoon.load().gap_cosines("One sentence.").shape == (0,)


@pytest.mark.parametrize("n", [500, 2000])
def test_the_work_grows_with_the_text_alone(n: int) -> None:
    class Counted(SentenceSizes):
        calls = 0

        def of(self, first: Any, last: int) -> Any:
            Counted.calls += np.size(first)
            return super().of(first, last)

    wanted = TokenRange.of("60-120")
    assert wanted is not None
    cut_in_range(Counted(*spans([10] * n)), np.full(n - 1, 0.5), [], [0], wanted)
    assert Counted.calls < 20 * n
