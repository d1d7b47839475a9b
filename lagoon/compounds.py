"""Keys of words and spans, and the multi-word entries of the vocabulary that they find.

Words have the FNV-1a hashes of their texts as keys, which the word tables are sorted by. Spans of a text have
keys that find equal spans without creating strings: a novel has half a million tokens, 20,000 of them
distinct.

Multi-word entries are a trie over token ids, walked for all positions at once. The key of an edge is
`node << 32 | part`, where a part is the index of a token's hash in `part_hashes`. The root is node 0. Every
other node has one incoming edge; nodes are numbered level by level in the order of these edges, so edge e
leads to node e + 1.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import MAX_U16
from lagoon.errors import LagoonError

FNV_OFFSET = 14695981039346656037
FNV_PRIME = 1099511628211

# Strings that fnv1a64_many hashes at once: limits its memory to a few MB.
_BATCH = 65536

# For the few words of a query, Python is faster than the overhead of numpy.
_FEW = 32
_FEW_CHARS = 512
CodePoints = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
# Longer spans are compared as strings; they are rare (encoded data, scripts without spaces).
MAX_KEYED = 64
_WORD_BYTES = 8
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], dtype=np.uint64)
_MIX = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd: multiplication by it is invertible
_MIX_KEYS = np.uint64(_MIX)
_HALF = np.uint64(32)
# Steps of linear search from the estimated position of a key before bisection takes over: chosen words can
# have many keys with the same estimate.
_FEW_STEPS = 64
NO_WORD = 0xFFFFFFFF
_LABEL_BITS = np.uint64(32)
_LABEL_MASK = np.uint64(0xFFFFFFFF)
# A bitmap rejects most pairs of adjacent words of running text without a binary search: with the edges of
# 64,000 compounds, fewer than one in five of its 2**20 slots are set.
_FILTER_BITS = 20
_MASK = 0xFFFFFFFFFFFFFFFF


def fnv1a64(text: str) -> int:
    """Hash of the UTF-8 bytes of `text` as given (fold it first), 0..2**64-1."""
    value = FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return value


def fnv1a64_many(texts: Sequence[str]) -> NDArray[np.uint64]:
    """`fnv1a64` of every string, shape (len(texts),); time grows with the total number of bytes."""
    if len(texts) <= _FEW and sum(map(len, texts)) <= _FEW_CHARS:
        return np.array([fnv1a64(text) for text in texts], dtype=np.uint64)
    out = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        out[start : start + len(batch)] = _hash_batch([t.encode("utf-8", "surrogatepass") for t in batch])
    return out


def _hash_batch(encoded: Sequence[bytes]) -> NDArray[np.uint64]:
    """Hash byte j of all strings at once, longest strings first, so that the strings with a byte j are a
    prefix."""
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    order = np.argsort(-lengths, kind="stable")
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    offsets = (np.cumsum(lengths) - lengths)[order]
    # n_longer[j]: number of strings longer than j bytes
    n_longer = len(encoded) - np.searchsorted(
        np.sort(lengths), np.arange(lengths.max(initial=0)), side="right"
    )
    state = np.full(len(encoded), FNV_OFFSET, dtype=np.uint64)
    prime = np.uint64(FNV_PRIME)
    for position, count in enumerate(n_longer.tolist()):
        active = state[:count]
        active ^= data[offsets[:count] + position]
        active *= prime
    out = np.empty_like(state)
    out[order] = state
    return out


def _multipliers() -> NDArray[np.uint64]:
    """A fixed odd 64-bit number for each position (SplitMix64, Steele, Lea and Flood 2014)."""
    mask = (1 << 64) - 1
    numbers = []
    state = 0
    for _ in range(MAX_KEYED):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append((mixed ^ (mixed >> 31)) | 1)
    return np.array(numbers, dtype=np.uint64)


_MULTIPLIERS = _multipliers()


def code_points(text: str) -> CodePoints:
    """Code points in the narrowest type that fits all of them: most of the time is memory access."""
    try:
        return np.frombuffer(text.encode("latin-1"), dtype=np.uint8)
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
    if len(units) == 2 * len(text):
        return np.frombuffer(units, dtype="<u2")
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


class Narrowed(NamedTuple):
    """A text as one byte per character.

    wide   i64 (n,): positions without a Latin-1 byte
    codes  code points at these positions
    """

    data: bytes
    wide: NDArray[np.int64]
    codes: CodePoints


def narrow(text: str) -> Narrowed:
    """Encode a text in Latin-1, with "?" for other characters.

    Most texts are Latin-1 except for quotes and dashes, and tables for bytes are several times faster than
    tables for code points.
    """
    try:
        return Narrowed(text.encode("latin-1"), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8))
    except UnicodeEncodeError:
        codes = code_points(text)
        wide = np.flatnonzero(codes > 0xFF)
        return Narrowed(text.encode("latin-1", "replace"), wide, codes[wide])


def distinct_spans(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first span with each distinct key, index of every span's key), distinct keys in order of
    appearance."""
    if not len(keys):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    distinct, ids = _ranks(keys)
    first = np.empty(len(distinct), dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]  # for repeated indices the last assignment wins
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[ids]


def expand_spans(
    starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(concatenated positions of all spans, index of each span's first position among them)."""
    begins = np.cumsum(lengths) - lengths
    return np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum())), begins


def byte_keys(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys of the spans of `data`: equal for equal spans; different spans collide with probability 2**-64.

    Spans have no zero bytes and at most MAX_KEYED bytes. Eight bytes are read at once; up to that length the
    key is a bijection of the bytes.
    """
    padded = data + bytes(_WORD_BYTES)
    eight = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    lengths = ends - starts
    keys: NDArray[np.uint64] = eight[starts] & _FIRST_BYTES[np.minimum(lengths, _WORD_BYTES)]
    keys *= _MIX_KEYS
    done = _WORD_BYTES
    longer = np.flatnonzero(lengths > done)
    while longer.size:
        rest = np.minimum(lengths[longer] - done, _WORD_BYTES)
        mixed = keys[longer]
        mixed ^= mixed >> _HALF
        mixed += eight[starts[longer] + done] & _FIRST_BYTES[rest]
        mixed *= _MIX_KEYS
        keys[longer] = mixed
        done += _WORD_BYTES
        longer = longer[lengths[longer] > done]
    return keys


def code_keys(
    text: str, codes: CodePoints, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Like `byte_keys` for spans of any length and any characters, by multilinear hash: the sum of code *
    multiplier(position), modulo 2**64."""
    lengths = ends - starts
    at, begins = expand_spans(starts, lengths)
    positions = at - np.repeat(starts, lengths)
    chars = codes[at]
    keys = np.add.reduceat(_MULTIPLIERS[np.minimum(positions, MAX_KEYED - 1)] * chars, begins)
    for index in np.flatnonzero(lengths > MAX_KEYED).tolist():
        keys[index] = hash(text[starts[index] : ends[index]]) & ((1 << 64) - 1)
    return keys


def _ranks(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(distinct keys ascending, index of every key among them).

    Same as np.unique(..., return_inverse=True) but several times faster: the position of a key is first
    estimated from its high bits.
    """
    ordered = np.sort(keys)
    changes = np.ones(len(ordered), dtype=np.bool_)
    changes[1:] = ordered[1:] != ordered[:-1]
    distinct = ordered[changes]
    bits = len(distinct).bit_length() + 3  # at most one key in eight shares its bucket
    shift = np.uint64(64 - bits)
    bucket = np.zeros(1 << bits, dtype=np.int64)
    bucket[(distinct >> shift)[::-1]] = np.arange(len(distinct))[::-1]
    ids = bucket[keys >> shift]
    wrong = np.flatnonzero(distinct[ids] != keys)
    for _ in range(_FEW_STEPS):
        if not wrong.size:
            break
        ids[wrong] += 1
        wrong = wrong[distinct[ids[wrong]] != keys[wrong]]
    ids[wrong] = np.searchsorted(distinct, keys[wrong])
    return distinct, ids


@dataclass(frozen=True)
class CompoundTrie:
    """Arrays of the trie.

    part_hashes  u64 (parts,) sorted
    keys         u64 (edges,) sorted
    node_words   u32 (edges + 1,): word accepted at a node, or NO_WORD
    """

    part_hashes: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    node_words: NDArray[np.uint32]

    @staticmethod
    def build(entries: Iterable[tuple[Sequence[str], int]]) -> "CompoundTrie":
        """Build the trie of (tokens, word id) entries; of entries with equal tokens the lowest id is used.

        The arrays do not depend on the order of the entries.
        """
        given = [(tokens, word) for tokens, word in entries if len(tokens)]
        names = list({token for tokens, _ in given for token in tokens})
        hashes = fnv1a64_many(names)
        by_hash = np.argsort(hashes)
        part_of = {names[index]: part for part, index in enumerate(by_hash.tolist())}
        parts = np.array([part_of[token] for tokens, _ in given for token in tokens], dtype=np.uint64)
        lengths = np.array([len(tokens) for tokens, _ in given], dtype=np.int64)
        begins = np.cumsum(lengths) - lengths
        nodes = np.zeros(len(given), dtype=np.int64)
        levels = [np.empty(0, dtype=np.uint64)]
        n_nodes = 1
        for depth in range(int(lengths.max(initial=0))):
            deep = np.flatnonzero(lengths > depth)
            keys = (nodes[deep].astype(np.uint64) << _LABEL_BITS) | parts[begins[deep] + depth]
            level, edges = np.unique(keys, return_inverse=True)
            nodes[deep] = n_nodes + edges
            levels.append(level)
            n_nodes += len(level)
        node_words = np.full(n_nodes, NO_WORD, dtype=np.uint32)
        np.minimum.at(node_words, nodes, np.array([word for _, word in given], dtype=np.uint32))
        return CompoundTrie(hashes[by_hash], np.concatenate(levels), node_words)

    def packed(self, first_word: int) -> "PackedTrie":
        """Pack the trie for files. Raises LagoonError unless the words are `first_word`, `first_word` + 1 and
        so on."""
        nodes = np.flatnonzero(self.node_words != NO_WORD)
        words = self.node_words[nodes].astype(np.int64) - first_word
        if not np.array_equal(np.sort(words), np.arange(len(words))):
            raise LagoonError("the compounds of a vocabulary must be its last words, each with one entry")
        if len(self.part_hashes) > MAX_U16 + 1:
            raise LagoonError(
                f"compounds have {len(self.part_hashes)} distinct words, more than {MAX_U16 + 1}"
            )
        degrees = np.bincount((self.keys >> _LABEL_BITS).astype(np.int64), minlength=len(self.node_words))
        bits = np.ones(len(self.node_words) + len(self.keys), dtype=np.uint8)
        bits[np.cumsum(degrees + 1) - 1] = 0
        of_word = np.empty(len(words), dtype=np.uint32)
        of_word[words] = nodes
        return PackedTrie(np.packbits(bits), (self.keys & _LABEL_MASK).astype(np.uint16), of_word)

    @staticmethod
    def unpacked(packed: "PackedTrie", part_hashes: NDArray[np.uint64], first_word: int) -> "CompoundTrie":
        n_edges = len(packed.parts)
        is_edge = np.unpackbits(packed.shape, count=2 * n_edges + 1).astype(np.bool_)
        parents = np.cumsum(~is_edge)[is_edge].astype(np.uint64)
        node_words = np.full(n_edges + 1, NO_WORD, dtype=np.uint32)
        node_words[packed.nodes] = np.arange(first_word, first_word + len(packed.nodes), dtype=np.uint32)
        return CompoundTrie(part_hashes, (parents << _LABEL_BITS) | packed.parts, node_words)

    def parts_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Part id of each token hash, -1 if no compound has the token."""
        return find_sorted(self.part_hashes, hashes)


class PackedTrie(NamedTuple):
    """A trie packed into a third of its size.

    shape  u8, packed bits: for each node a one bit for each outgoing edge, then a zero bit (the level-order
           unary degree sequence of Jacobson, "Space-efficient static trees and graphs", 1989)
    parts  u16 (edges,)
    nodes  u32 (words,): node at which each word is accepted
    """

    shape: NDArray[np.uint8]
    parts: NDArray[np.uint16]
    nodes: NDArray[np.uint32]


class EdgeTable:
    """Map from (node, label) to a value, for many pairs at once or for a single pair."""

    def __init__(self, keys: NDArray[np.uint64], values: NDArray[np.uint32]) -> None:
        """`keys` sorted, `node << 32 | label`."""
        self._keys = keys
        self._values = values
        self._filter = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        self._filter[_slot(keys)] = True
        # Single items of a memoryview are three times as fast as those of an array.
        self._views = self._filter.data, keys.data, values.data

    def find(
        self, nodes: NDArray[np.uint32], labels: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """(indices of the pairs that are in the table, their values); negative labels never match."""
        keys = (nodes.astype(np.uint64) << _LABEL_BITS) | labels.astype(np.uint64)
        likely = np.flatnonzero((labels >= 0) & self._filter[_slot(keys)])
        at = find_sorted(self._keys, keys[likely])
        is_match = at >= 0
        return likely[is_match], self._values[at[is_match]]

    def get(self, node: int, label: int) -> int:
        """Value of a single pair, -1 if it is not in the table."""
        key = node << 32 | label
        in_filter, keys, values = self._views
        if label < 0 or not in_filter[(key * _MIX & _MASK) >> (64 - _FILTER_BITS)]:
            return -1
        at = bisect_left(keys, key)
        return int(values[at]) if at < len(keys) and keys[at] == key else -1


@dataclass(frozen=True)
class CompoundMatches:
    """Occurrences of compounds: first token, number of tokens, word id; each (n,)."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    words: NDArray[np.int64]


class CompoundMatcher:
    """Finds a trie's compounds in a sequence of tokens.

    The last word of a compound may be inflected: a token also matches the last part of an entry if both have
        the same
    single word ("heart attacks"). `part_words` is the word of every part, -1 for none.
    """

    def __init__(self, trie: CompoundTrie, part_words: NDArray[np.int64]) -> None:
        at_root = int(np.searchsorted(trie.keys, np.uint64(1) << _LABEL_BITS))
        # Indexed by part or by word; the last entry, at index -1, is for "none".
        self._from_root = np.zeros(len(trie.part_hashes) + 1, dtype=np.uint32)
        self._from_root[trie.keys[:at_root]] = np.arange(1, at_root + 1, dtype=np.uint32)
        self._edges = EdgeTable(trie.keys, np.arange(1, len(trie.keys) + 1, dtype=np.uint32))
        self._accepted = trie.node_words
        inflected, compounds = _inflected_edges(trie, part_words)
        self._inflected = EdgeTable(inflected, compounds)
        self._part_follows = np.zeros(len(trie.part_hashes) + 1, dtype=np.bool_)
        self._part_follows[trie.keys[at_root:] & _LABEL_MASK] = True
        self._word_follows = np.zeros(int(part_words.max(initial=-1)) + 2, dtype=np.bool_)
        self._word_follows[inflected & _LABEL_MASK] = True
        self._views = (
            self._from_root.data,
            self._part_follows.data,
            self._word_follows.data,
            self._accepted.data,
        )

    def find(
        self,
        parts: NDArray[np.int64],
        words: NDArray[np.int64],
        ids: NDArray[np.int32],
        joined: NDArray[np.bool_],
    ) -> CompoundMatches:
        """Find leftmost-longest occurrences, without overlaps, among the tokens `ids`, which are indices of
        forms.

        parts, words  by form: its part and its single word, -1 for none
        joined        by token: whether it is adjacent to the next
        """
        lengths = np.zeros(len(ids), dtype=np.int64)
        compounds = np.zeros(len(ids), dtype=np.int64)
        for depth, at, accepted in self._accepting(parts, words, ids, joined):
            lengths[at] = depth
            compounds[at] = accepted
        starts = _leftmost(lengths)
        return CompoundMatches(starts, lengths[starts], compounds[starts])

    def find_all(
        self,
        parts: NDArray[np.int64],
        words: NDArray[np.int64],
        ids: NDArray[np.int32],
        joined: NDArray[np.bool_],
    ) -> CompoundMatches:
        """Find every occurrence, including overlapping ones; by length, then by position."""
        matches = list(self._accepting(parts, words, ids, joined))
        if not matches:
            empty = np.empty(0, dtype=np.int64)
            return CompoundMatches(empty, empty, empty)
        lengths = np.repeat([depth for depth, _, _ in matches], [len(at) for _, at, _ in matches])
        starts = np.concatenate([at for _, at, _ in matches])
        return CompoundMatches(starts, lengths, np.concatenate([accepted for _, _, accepted in matches]))

    def _accepting(
        self,
        parts: NDArray[np.int64],
        words: NDArray[np.int64],
        ids: NDArray[np.int32],
        joined: NDArray[np.bool_],
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """(length, first tokens, words) of all occurrences by ascending length, inflected ones before exact
        ones."""
        begins = self._from_root[parts] > 0
        words_with_entry = np.where(words < len(self._word_follows), words, -1)
        follows = self._part_follows[parts] | self._word_follows[words_with_entry]
        at = np.flatnonzero(begins[ids[:-1]] & follows[ids[1:]] & joined[:-1])
        nodes = self._from_root[parts[ids[at]]]
        depth = 1
        while at.size:
            token = at + depth
            form = ids[token]
            depth += 1
            hits, ending = self._inflected.find(nodes, words[form])
            if hits.size:
                yield depth, at[hits], ending.astype(np.int64)
            hits, nodes = self._edges.find(nodes, parts[form])
            at, token = at[hits], token[hits]
            accepted = self._accepted[nodes]
            complete = accepted != NO_WORD
            if complete.any():
                yield depth, at[complete], accepted[complete].astype(np.int64)
            continues = joined[token]
            at, nodes = at[continues], nodes[continues]

    def find_few(
        self, parts: Sequence[int], words: Sequence[int], joined: Sequence[bool]
    ) -> list[tuple[int, int, int]]:
        """Like `find` for few tokens, without numpy; all arguments by token. (first token, number of tokens,
        word)"""
        from_root, part_follows, word_follows, accepted = self._views
        n_words = len(word_follows)
        matches = []
        start, last = 0, len(parts) - 1
        while start < last:
            length = compound = 0
            node = from_root[parts[start]] if joined[start] else 0
            token = start
            while node > 0 and joined[token]:
                token += 1
                part, word = parts[token], words[token]
                ending = -1
                if word < n_words and word_follows[word]:
                    ending = self._inflected.get(node, word)
                node = self._edges.get(node, part) if part_follows[part] else -1
                if node > 0 and accepted[node] != NO_WORD:
                    ending = accepted[node]
                if ending >= 0:
                    length, compound = token + 1 - start, ending
            if length:
                matches.append((start, length, compound))
            start += max(length, 1)
        return matches


def _leftmost(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Starts of the spans that remain when each span drops the spans that begin inside it."""
    starts = np.flatnonzero(lengths)
    kept = []
    free = 0
    for start, length in zip(starts.tolist(), lengths[starts].tolist(), strict=True):
        if start >= free:
            kept.append(start)
            free = start + length
    return np.array(kept, dtype=np.int64)


def _inflected_edges(
    trie: CompoundTrie, part_words: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Keys and values of the map from (node, word of the last token) to the compound."""
    accepted = trie.node_words[1:]
    words = part_words[trie.keys & _LABEL_MASK]
    chosen = np.flatnonzero((accepted != NO_WORD) & (words >= 0) & (trie.keys >> _LABEL_BITS > 0))
    keys = (trie.keys[chosen] & ~_LABEL_MASK) | words[chosen].astype(np.uint64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    begins = np.flatnonzero(first)
    # Entries may differ only in the inflection of their last word: the lowest id is used.
    lowest = np.minimum.reduceat(accepted[chosen][order], begins) if len(begins) else accepted[:0]
    return keys[begins], lowest


def find_sorted(table: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Index of each value in a sorted table, -1 if it is absent."""
    if not len(table):
        return np.full(len(values), -1, dtype=np.int64)
    at = np.searchsorted(table, values)
    at[at == len(table)] = 0
    return np.where(table[at] == values, at, -1)


def _slot(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (keys * _MIX_KEYS) >> np.uint64(64 - _FILTER_BITS)
