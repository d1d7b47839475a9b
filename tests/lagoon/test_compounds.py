import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagoon.compounds import NO_WORD, CompoundMatcher, CompoundTrie, fnv1a64_many

LETTERS = "abcd"
ENTRIES = st.dictionaries(
    st.lists(st.sampled_from(LETTERS), min_size=2, max_size=4).map(tuple), st.integers(0, 99), max_size=12
)
# A, B and C are inflections of a, b and c; d is not a single word.
INFLECTED = "ABC"
TOKENS = st.lists(st.tuples(st.sampled_from(LETTERS + LETTERS.upper()), st.booleans()), max_size=30)


def find_by_definition(
    entries: dict[tuple[str, ...], int], tokens: list[str], joined: list[bool]
) -> list[tuple[int, int, int]]:
    """Leftmost-longest matches by their definition."""
    matches = []
    at = 0
    while at < len(tokens):
        for length in range(len(tokens) - at, 1, -1):
            words = tuple(tokens[at : at + length])
            last = words[-1].lower() if words[-1] in INFLECTED else words[-1]
            lemma = (*words[:-1], last)
            entry = entries.get(words, entries.get(lemma))
            if entry is not None and all(joined[at : at + length - 1]):
                matches.append((at, length, entry))
                at += length - 1
                break
        at += 1
    return matches


@given(ENTRIES, TOKENS)
def test_matches_are_the_leftmost_longest(
    entries: dict[tuple[str, ...], int], stream: list[tuple[str, bool]]
) -> None:
    tokens, joined = [token for token, _ in stream], [side for _, side in stream]
    joined[-1:] = [False] * len(joined[-1:])
    trie = CompoundTrie.build(entries.items())
    part_words = np.full(len(trie.part_hashes), -1, dtype=np.int64)
    for letter in INFLECTED.lower():
        part = trie.parts_of(fnv1a64_many([letter]))[0]
        if part >= 0:
            part_words[part] = ord(letter)
    parts = trie.parts_of(fnv1a64_many(tokens))
    words = np.array([ord(token.lower()) if token not in "dD" else -1 for token in tokens], dtype=np.int64)
    matcher = CompoundMatcher(trie, part_words)
    ids = np.arange(len(tokens), dtype=np.int32)
    matches = matcher.find(parts, words, ids, np.array(joined, dtype=bool))
    triples = zip(matches.starts.tolist(), matches.lengths.tolist(), matches.words.tolist(), strict=True)
    assert list(triples) == find_by_definition(entries, tokens, joined)
    assert matcher.find_few(parts.tolist(), words.tolist(), joined) == find_by_definition(
        entries, tokens, joined
    )


@given(ENTRIES, st.randoms())
def test_the_trie_does_not_depend_on_the_order_of_its_entries(entries: dict, random: object) -> None:
    shuffled = list(entries.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    trie, shuffled_trie = CompoundTrie.build(entries.items()), CompoundTrie.build(shuffled)
    for name in ("part_hashes", "keys", "node_words"):
        assert np.array_equal(getattr(trie, name), getattr(shuffled_trie, name))
    assert (np.diff(trie.keys.astype(object)) > 0).all()
    assert np.count_nonzero(trie.node_words != NO_WORD) == len(entries)


def test_other_inflections_match_the_entry_with_the_lowest_id() -> None:
    # "a b" and "a c" end in two forms of word 9; d is a third form.
    trie = CompoundTrie.build([(("a", "b"), 7), (("a", "c"), 3), (("d", "a"), 5)])
    word_of = {"a": 1, "b": 9, "c": 9, "d": 9}
    tokens = [*"ab", *"ac", *"ad"]
    part_words = np.empty(len(trie.part_hashes), dtype=np.int64)
    for token, word in word_of.items():
        part_words[trie.parts_of(fnv1a64_many([token]))] = word
    parts = trie.parts_of(fnv1a64_many(tokens)).tolist()
    matches = CompoundMatcher(trie, part_words).find_few(
        parts, [word_of[token] for token in tokens], [True, False] * 3
    )
    assert matches == [(0, 2, 7), (2, 2, 3), (4, 2, 3)]
