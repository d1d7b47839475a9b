"""The scorer's model: arrays in memory, and the files they are stored in.

The tables are little-endian .npy files, memory-mapped so that all processes of a machine share a copy.
`manifest.json` has their checksums, the versions and the parameters. The file of the normal forms is front-
coded: line i is word i, a character that encodes the length of the prefix shared with the word before, then
the rest of the word. Every 32nd word is stored whole, so that a word is decoded without reading all lines
before it.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from lagoon.bm25 import (
    BM25_SCALE,
    IDF_SCALE,
    MAX_U8,
    WEIGHT_SCALE,
    Bm25Parameters,
    quantised_reef_idf,
    specificity_of,
)
from lagoon.compounds import CompoundTrie, PackedTrie
from lagoon.errors import LagoonChecksumError, LagoonError, LagoonVersionError

FORMAT = 6
MANIFEST = "manifest.json"
HIERARCHY = "hierarchy.json"
WORDS = "words.txt"
SCALES = {"idf": IDF_SCALE, "bm25": BM25_SCALE, "weight": WEIGHT_SCALE}

# Array file -> dtype.
ARRAYS: dict[str, str] = {
    "form_hashes": "<u8",
    "form_words": "<u4",
    "stem_hashes": "<u8",
    "stem_words": "<u4",
    "part_hashes": "<u8",
    "trie_shape": "|u1",
    "trie_parts": "<u2",
    "compound_nodes": "<u4",
    "row_lengths": "|u1",
    "row_reefs": "|u1",
    "row_bm25": "<u2",
    "row_support": "|u1",
    "sense_words": "<u4",
    "sense_vectors": "|i1",
    "sense_directions": "|i1",
    "meanings": "|i1",
    "sense_offsets": "<f8",
    "reef_trust": "<f8",
    "name_words": "|u1",
    "weights": "<u2",
    "reef_words": "<u4",
    "background": "<f8",
    "dispersion": "<f8",
    "label_background": "<f8",
    "label_dispersion": "<f8",
}

NEVER = -100.0
"""Logit of a probability of 0."""

SUPPORT_STEPS = 15
"""Support is stored in 1/15, two associations in a byte."""


@dataclass(frozen=True)
class Archipelago:
    id: int
    name: str


@dataclass(frozen=True)
class Island:
    id: int
    name: str
    archipelago_id: int


@dataclass(frozen=True)
class Reef:
    """`n_words`: number of associated words; `typical_words`: the words that describe it best."""

    id: int
    name: str
    island_id: int
    n_words: int
    typical_words: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchy:
    """Reefs, islands and archipelagos; the id of an entry is its index."""

    archipelagos: tuple[Archipelago, ...]
    islands: tuple[Island, ...]
    reefs: tuple[Reef, ...]


class Words(Protocol):
    """Normal forms by word id."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, index: int, /) -> str: ...


@dataclass(frozen=True)
class Model:
    """The scorer's data: W words and R reefs. The last `n_compounds` words have several tokens.

    words        normal forms by word id
    form_hashes  u64 sorted, form_words u32: hashes of lemmas and irregular forms -> word id
    stem_hashes  u64 sorted, stem_words u32: hashes of stems -> word id
    part_hashes, trie_keys, trie_words: see `compounds.CompoundTrie`
    row_starts   u32 (W+1,), row_reefs u8, row_bm25 u16: word -> its reefs (CSR), bm25 in 1/8192
    row_support  u8: how far each association shows the subject of a text, in 1/SUPPORT_STEPS
    sense_words  u32 (S,) ascending: the words that speak for or against reefs as the subject of a text.
                 sense_vectors i8 (S+1, D): a vector of zeros, then that of each of these; times
                 sense_directions i8 (D, R) it is what the word says; see `ReefTable.sense_z`
    sense_offsets  f64 (R,): what a text says without any word
    meanings     i8 (S+1, M): a vector of zeros, then the meaning of each of sense_words; words that mean the
                 same have vectors of the same direction
    reef_trust   f64 (R,): what the logit of each label is raised by; NEVER for a reef that is no label
    name_words   u8 (W/8,): bits, whether a capital makes a word a name; see `names`
    weights      u16 (W,) in 1/4096
    reef_words   u32 (R,): number of words of each reef
    background   f64 (2, R): mean and variance of weight * bm25 of a word of running text
    dispersion   f64 (2,): rate and exponent of the growth of the variance of running text beyond the number
                 of its words; see `scoring`
    label_background, label_dispersion: the same for contributions times support; see `labels`
    """

    version: str
    checksum: str
    hierarchy: Hierarchy
    bm25: Bm25Parameters
    words: Words
    n_compounds: int
    form_hashes: NDArray[np.uint64]
    form_words: NDArray[np.uint32]
    stem_hashes: NDArray[np.uint64]
    stem_words: NDArray[np.uint32]
    part_hashes: NDArray[np.uint64]
    trie_keys: NDArray[np.uint64]
    trie_words: NDArray[np.uint32]
    row_starts: NDArray[np.uint32]
    row_reefs: NDArray[np.uint8]
    row_bm25: NDArray[np.uint16]
    row_support: NDArray[np.uint8]
    sense_words: NDArray[np.uint32]
    sense_vectors: NDArray[np.int8]
    sense_directions: NDArray[np.int8]
    sense_offsets: NDArray[np.float64]
    meanings: NDArray[np.int8]
    reef_trust: NDArray[np.float64]
    name_words: NDArray[np.uint8]
    weights: NDArray[np.uint16]
    reef_words: NDArray[np.uint32]
    background: NDArray[np.float64]
    dispersion: NDArray[np.float64]
    label_background: NDArray[np.float64]
    label_dispersion: NDArray[np.float64]

    @property
    def n_words(self) -> int:
        return len(self.words)

    @property
    def n_reefs(self) -> int:
        return len(self.hierarchy.reefs)

    @property
    def compounds(self) -> CompoundTrie:
        return CompoundTrie(self.part_hashes, self.trie_keys, self.trie_words)

    @cached_property
    def idf_q(self) -> NDArray[np.uint8]:
        """u8 (W,): idf over reefs in 1/51, 0 for a word without reefs."""
        possible = [quantised_reef_idf(n, self.n_reefs) for n in range(self.n_reefs + 1)]
        idf_q: NDArray[np.uint8] = np.array(possible, dtype=np.uint8)[self._row_lengths]
        return idf_q

    @cached_property
    def specificity(self) -> NDArray[np.int8]:
        """i8 (W,), -2..2."""
        possible = [specificity_of(n) for n in range(self.n_reefs + 1)]
        specificity: NDArray[np.int8] = np.array(possible, dtype=np.int8)[self._row_lengths]
        return specificity

    @property
    def _row_lengths(self) -> NDArray[np.int64]:
        starts = self.row_starts.astype(np.int64)
        return starts[1:] - starts[:-1]

    def check(self) -> None:
        """Raise LagoonError if the shapes or values of the arrays are inconsistent."""
        n_words, n_reefs = self.n_words, self.n_reefs
        shapes: dict[str, tuple[int, ...]] = {
            "form_words": self.form_hashes.shape,
            "stem_words": self.stem_hashes.shape,
            "trie_words": (len(self.trie_keys) + 1,),
            "row_starts": (n_words + 1,),
            "row_bm25": self.row_reefs.shape,
            "row_support": self.row_reefs.shape,
            "sense_vectors": (len(self.sense_words) + 1, len(self.sense_directions)),
            "sense_directions": (len(self.sense_directions), n_reefs),
            "sense_offsets": (n_reefs,),
            "meanings": (len(self.sense_words) + 1, *self.meanings.shape[1:]),
            "reef_trust": (n_reefs,),
            "name_words": (-(-n_words // 8),),
            "weights": (n_words,),
            "reef_words": (n_reefs,),
            "background": (2, n_reefs),
            "dispersion": (2,),
            "label_background": (2, n_reefs),
            "label_dispersion": (2,),
        }
        for name, shape in shapes.items():
            actual = getattr(self, name).shape
            if actual != shape:
                raise LagoonError(f"lagoon data: {name} has shape {actual}, expected {shape}")
        if int(self.row_starts[-1]) != len(self.row_reefs):
            raise LagoonError("lagoon data: row_starts does not end at the length of row_reefs")
        if self.sense_words.max(initial=0) >= max(n_words, 1):
            raise LagoonError(f"lagoon data: sense_words must be below {n_words}")
        if self.sense_vectors[0].any() or self.meanings[0].any():
            raise LagoonError("lagoon data: the first sense vector and meaning must be 0")
        if not (np.all(np.isfinite(self.sense_offsets)) and np.all(np.isfinite(self.reef_trust))):
            raise LagoonError("lagoon data: sense offsets and reef trust must be finite")
        if self.row_support.max(initial=0) > SUPPORT_STEPS:
            raise LagoonError(f"lagoon data: support must be at most {SUPPORT_STEPS}")
        for background in (self.background, self.label_background):
            if not (np.all(background[1] > 0) and np.all(np.isfinite(background))):
                raise LagoonError("lagoon data: background variances must be positive and finite")
        for dispersion in (self.dispersion, self.label_dispersion):
            if not (np.all(dispersion >= 0) and np.all(np.isfinite(dispersion))):
                raise LagoonError("lagoon data: dispersion must be finite and not negative")


def save_model(model: Model, directory: Path, manifest_fields: Mapping[str, Any]) -> str:
    """Write the model's files and manifest into `directory` and return the checksum of the data.

    `manifest_fields` are additional fields of the manifest ("parameters", "sources"); they cannot replace the
    fields that describe the files and the model. `model.checksum` is ignored.
    """
    model.check()
    directory.mkdir(parents=True, exist_ok=True)
    for name, array in _packed(model).items():
        # The arrays of a loaded model are maps of the files that this may replace.
        written = directory / f"new_{name}.npy"
        np.save(written, array, allow_pickle=False)
        written.replace(directory / f"{name}.npy")
    words = encode_words(model.words[index] for index in range(model.n_words))
    (directory / WORDS).write_bytes(words)
    _write_json(directory / HIERARCHY, asdict(model.hierarchy))
    files = {name: _describe(directory / name) for name in _file_names()}
    checksum = _combined_checksum({name: entry["sha256"] for name, entry in files.items()})
    manifest = dict(manifest_fields) | {
        "format": FORMAT,
        "version": model.version,
        "checksum": checksum,
        "files": files,
        "n_reefs": model.n_reefs,
        "n_islands": len(model.hierarchy.islands),
        "n_archipelagos": len(model.hierarchy.archipelagos),
        "n_words": model.n_words,
        "n_compounds": model.n_compounds,
        "scales": SCALES,
        "bm25": asdict(model.bm25),
    }
    _write_json(directory / MANIFEST, manifest)
    return checksum


def load_model(directory: Path, verify: bool = False) -> Model:
    """Load the model in `directory`.

    Files are compared with the manifest by CRC-32 (3 ms), or with `verify` by SHA-256 (30 ms), which also
    detects deliberate changes. Raises LagoonVersionError for data of another format, LagoonChecksumError for
    a changed file, and LagoonError for missing or malformed data.
    """
    manifest = _read_json(directory / MANIFEST)
    try:
        if manifest["format"] != FORMAT or manifest["scales"] != SCALES:
            raise LagoonVersionError(
                f"lagoon data in {directory} has format {manifest['format']!r} with scales "
                f"{manifest['scales']!r}; this version reads format {FORMAT} with {SCALES}"
            )
        files: dict[str, dict[str, Any]] = manifest["files"]
        _check_files(directory, files, manifest["checksum"], verify)
        arrays = {name: _open_array(directory / f"{name}.npy", dtype) for name, dtype in ARRAYS.items()}
        model = Model(
            version=str(manifest["version"]),
            checksum=str(manifest["checksum"]),
            hierarchy=_hierarchy(_read_json(directory / HIERARCHY)),
            bm25=Bm25Parameters(**manifest["bm25"]),
            words=StoredWords(directory / WORDS, int(manifest["n_words"])),
            n_compounds=int(manifest["n_compounds"]),
            **_unpacked(arrays),
        )
    except (KeyError, TypeError) as error:
        raise LagoonError(f"lagoon data in {directory} is malformed: {error!r}") from error
    model.check()
    return model


def _packed(model: Model) -> dict[str, NDArray[Any]]:
    """Arrays for the files: narrow types, and no arrays that can be derived from others."""
    lengths = model._row_lengths
    most = int(lengths.max(initial=0))
    if most > MAX_U8:
        raise LagoonError(f"lagoon data: a word has {most} reefs, more than {MAX_U8}")
    trie = model.compounds.packed(first_word=model.n_words - model.n_compounds)
    derived = {
        "row_lengths": lengths,
        "row_support": _pairs(model.row_support),
        "trie_shape": trie.shape,
        "trie_parts": trie.parts,
        "compound_nodes": trie.nodes,
    }
    return {
        name: np.ascontiguousarray(derived.get(name, getattr(model, name, None)), dtype=dtype)
        for name, dtype in ARRAYS.items()
    }


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Derive the model's arrays from those of the files."""
    stored = dict(arrays)
    lengths = stored.pop("row_lengths")
    packed = PackedTrie(stored.pop("trie_shape"), stored.pop("trie_parts"), stored.pop("compound_nodes"))
    n_compounds = len(packed.nodes)
    trie = CompoundTrie.unpacked(packed, stored["part_hashes"], first_word=len(lengths) - n_compounds)
    starts = np.zeros(len(lengths) + 1, dtype=np.uint32)
    np.cumsum(lengths, out=starts[1:])
    support = _single(stored["row_support"], int(starts[-1]))
    return {
        **stored,
        "row_starts": starts,
        "row_support": support,
        "trie_keys": trie.keys,
        "trie_words": trie.node_words,
    }


def _pairs(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack values of four bits, two in a byte."""
    even = np.append(levels, np.zeros(len(levels) % 2, dtype=np.uint8)).reshape(-1, 2)
    packed: NDArray[np.uint8] = even[:, 0] | even[:, 1] << np.uint8(4)
    return packed


def _single(pairs: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """Unpack the `n` values of `_pairs`."""
    return np.stack((pairs & 0xF, pairs >> 4), axis=1).ravel()[:n]


def _file_names() -> list[str]:
    return sorted([HIERARCHY, WORDS, *(f"{name}.npy" for name in ARRAYS)])


def _check_files(
    directory: Path, files: Mapping[str, Mapping[str, Any]], checksum: str, verify: bool
) -> None:
    missing = [name for name in _file_names() if name not in files]
    if missing:
        raise LagoonError(f"lagoon data in {directory}: the manifest does not list {', '.join(missing)}")
    if _combined_checksum({name: entry["sha256"] for name, entry in files.items()}) != checksum:
        raise LagoonChecksumError(
            f"lagoon data in {directory}: the manifest's checksum is not that of its files"
        )
    for name in _file_names():
        path = directory / name
        try:
            changed = path.stat().st_size != files[name]["bytes"] or _differs(path, files[name], verify)
        except OSError as error:
            raise LagoonError(f"lagoon data: cannot read {path}: {error.strerror}") from error
        if changed:
            raise LagoonChecksumError(f"lagoon data: {path} is not the file its manifest describes")


def _open_array(path: Path, dtype: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LagoonError(f"lagoon data: cannot read {path}: {error}") from error
    if array.dtype != np.dtype(dtype):
        raise LagoonError(f"lagoon data: {path} holds {array.dtype}, expected {dtype}")
    # A plain view, because indexing a memmap costs microseconds per call.
    return array.view(np.ndarray)


def _hierarchy(data: Mapping[str, Any]) -> Hierarchy:
    hierarchy = Hierarchy(
        tuple(Archipelago(**entry) for entry in data["archipelagos"]),
        tuple(Island(**entry) for entry in data["islands"]),
        tuple(Reef(**(entry | {"typical_words": tuple(entry["typical_words"])})) for entry in data["reefs"]),
    )
    for entries in (hierarchy.archipelagos, hierarchy.islands, hierarchy.reefs):
        if [entry.id for entry in entries] != list(range(len(entries))):
            raise LagoonError("lagoon data: ids in the hierarchy must count up from 0")
    return hierarchy


def _describe(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "crc32": zlib.crc32(data), "bytes": len(data)}


def _differs(path: Path, described: Mapping[str, Any], verify: bool) -> bool:
    """Whether the checksum of a file differs from the manifest."""
    data = path.read_bytes()
    if verify or "crc32" not in described:
        return hashlib.sha256(data).hexdigest() != str(described["sha256"])
    return zlib.crc32(data) != int(described["crc32"])


def _combined_checksum(digests: Mapping[str, str]) -> str:
    """sha256 over the lines "name sha256", sorted."""
    lines = sorted(f"{name} {digest}\n" for name, digest in digests.items())
    return hashlib.sha256("".join(lines).encode("ascii")).hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LagoonError(f"lagoon data: cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise LagoonError(f"lagoon data: {path} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise LagoonError(f"lagoon data: {path} is not a JSON object")
    return data


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    text = json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_bytes(f"{text}\n".encode())


BLOCK = 32
_NOTHING_SHARED = ord("0")
_MOST_SHARED = ord("~") - _NOTHING_SHARED


def encode_words(words: Iterable[str]) -> bytes:
    """Encode words as the content of the file, UTF-8."""
    lines = []
    before = ""
    for index, word in enumerate(words):
        shared = min(_shared_prefix_length(before, word), _MOST_SHARED) if index % BLOCK else 0
        lines.append(f"{chr(_NOTHING_SHARED + shared)}{word[shared:]}\n")
        before = word
    return "".join(lines).encode("utf-8")


def _shared_prefix_length(left: str, right: str) -> int:
    for length, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return length
    return min(len(left), len(right))


def decode_words(lines: Iterable[str]) -> Iterator[str]:
    """Decode words from consecutive lines; the first line begins a block."""
    word = ""
    for line in lines:
        word = word[: ord(line[0]) - _NOTHING_SHARED] + line[1:]
        yield word


class StoredWords(Sequence[str]):
    """Normal forms by word id, read from their file on first access: scoring uses hashes and never needs
    them."""

    def __init__(self, path: Path, n_words: int) -> None:
        self._path = path
        self._n_words = n_words
        self._opened: tuple[bytes, list[int]] | None = None

    def __len__(self) -> int:
        return self._n_words

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(self)[index]
        if not -self._n_words <= index < self._n_words:
            raise IndexError(index)
        data, starts = self._open()
        block, line = divmod(index % self._n_words, BLOCK)
        lines = data[starts[block] : starts[block + 1]].decode("utf-8").split("\n")
        return next(islice(decode_words(lines), line, None))

    def __iter__(self) -> Iterator[str]:
        return decode_words(self._open()[0].decode("utf-8").split("\n")[: self._n_words])

    def _open(self) -> tuple[bytes, list[int]]:
        """Content of the file and the start offsets of its blocks."""
        if self._opened is None:
            data = self._path.read_bytes()
            ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
            self._opened = data, [0, *(ends[BLOCK - 1 :: BLOCK] + 1).tolist(), len(data)]
        return self._opened
