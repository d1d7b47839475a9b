"""The formula of the benchmark of lexical ranking equals the same computed word by word in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.lexical_ranking import Formula, WordIndex, choice_of_others, pairs_of, score

CHUNKS = [
    "The whale feeds its calf with milk of the whale.",
    "Ships follow the trade wind, and whales follow ships.",
    "Milk!",
    "Trade winds blow. The wind is a trade wind.",
]
TITLES = ["Whales", "Winds of trade"]
DOCUMENT = np.array([0, 0, 0, 1])
FORMULA = Formula(block=2)


def words(text: str) -> list[str]:
    """The tokens of these texts, with the stems of "whales", "winds", "ships", "feeds" and "follows"."""
    tokens = "".join(c if c.isalpha() else " " for c in text.lower()).split()
    return [token.removesuffix("s") if token not in ("its", "is") else token for token in tokens]


def saturated(tf: float) -> float:
    return tf * 2.2 / (tf + 1.2)


def norm(length: int, lengths: list[int]) -> float:
    return 0.25 + 0.75 * length / (sum(lengths) / len(lengths))


def plain_score(chunk: int, blocks: list[list[int]], query: str) -> float:
    chunks, titles = [words(text) for text in CHUNKS], [words(title) for title in TITLES]
    lengths = [len(chunk) for chunk in chunks]
    block = next(block for block in blocks if chunk in block)
    in_blocks = [[word for number in block for word in chunks[number]] for block in blocks]

    def title(word: str, number: int) -> float:
        own = titles[DOCUMENT[number]]
        return 2 * own.count(word) / norm(len(own), [len(title) for title in titles])

    words_score, block_score = 0.0, 0.0
    for word in set(words(query)):
        df = sum(word in chunks[i] for i in range(len(chunks)))
        idf = math.log(1 + (len(chunks) - df + 0.5) / (df + 0.5))
        times = math.sqrt(words(query).count(word))
        in_block = [word for number in block for word in chunks[number]]
        of_block = in_block.count(word) / norm(len(in_block), [len(held) for held in in_blocks])
        of_chunk = chunks[chunk].count(word) / norm(lengths[chunk], lengths)
        words_score += times * idf * saturated(of_chunk + title(word, chunk))
        block_score += times * idf * saturated(of_block + title(word, chunk))
    return words_score + 0.5 * block_score if words_score else 0.0


def test_words_count_in_text_title_and_block() -> None:
    query = "whale milk whale"
    index = WordIndex(CHUNKS, TITLES, DOCUMENT, [query])
    blocks = [[0, 1], [2], [3]]
    assert index.blocks(2).tolist() == [0, 0, 1, 2]
    expected = [plain_score(chunk, blocks, query) for chunk in range(4)]
    scores = score(index, FORMULA).combined(Formula(block=2, pair=0.0))
    assert scores[0] == pytest.approx(expected)
    assert expected[3] == 0.0


def test_pairs_are_adjacent_words_of_the_query_that_are_adjacent_in_the_text() -> None:
    index = WordIndex(CHUNKS, TITLES, DOCUMENT, ["trade winds for whales", "wind trade", "trade of the wind"])
    assert [len(pairs_of(query)) for query in index.queries] == [1, 1, 0]
    pairs = score(index, FORMULA).pairs
    lengths = [len(words(text)) for text in CHUNKS]
    idf = math.log(1 + 2.5 / 2.5)
    expected = [idf * saturated(tf / norm(n, lengths)) for tf, n in zip([0, 1, 0, 2], lengths, strict=True)]
    assert pairs[0] == pytest.approx(expected)
    assert not pairs[1:].any()


def test_blocks_of_a_document_are_equal_and_cover_it() -> None:
    document = np.repeat([0, 1, 2], [9, 8, 1])
    index = WordIndex(["word"] * 18, ["a", "b", "c"], document, [])
    assert index.blocks(8).tolist() == [0] * 5 + [1] * 4 + [2] * 8 + [3]
    assert index.blocks(None).tolist() == document.tolist()


def test_each_collection_is_left_out_of_its_own_choice() -> None:
    results = {"first": [0.9, 0.1, 0.1], "second": [0.2, 0.5, 0.4]}
    assert choice_of_others(results) == ["second", "first", "first"]
