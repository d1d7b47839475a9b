"""A small model for tests, with every feature of the real model."""

import numpy as np

from lagoon.bm25 import Bm25Parameters, quantise_bm25, quantise_weights, reef_bm25, reef_idf
from lagoon.compounds import CompoundTrie, fnv1a64_many
from lagoon.model import NEVER, Archipelago, Hierarchy, Island, Model, Reef
from lagoon.tokens import normalise, stem

# word: {reef: strength}. Six reefs: 0 body, 1 feeling, 2 plants, 3 stars, 4 war, 5 money.
WORDS: dict[str, dict[int, float]] = {
    "heart": {0: 1.0, 1: 0.6},
    "attack": {4: 1.0, 0: 0.2},
    "child": {1: 0.8},
    "day": {3: 0.3, 5: 0.2},
    "art": {1: 0.9},
    "leaf": {2: 1.0},
    "tree": {2: 0.9, 5: 0.05},
    "star": {3: 1.0},
    "planet": {3: 0.9},
    "soldier": {4: 0.9},
    "bank": {5: 1.0, 2: 0.1},
    "money": {5: 0.9},
    "blood": {0: 0.9, 4: 0.3},
    "doctor": {0: 0.8},
    "love": {1: 1.0},
    "cafe": {5: 0.4, 1: 0.2},
    "u.s.": {4: 0.4, 5: 0.5},
    "war": {4: 1.0},
    "date": {3: 0.2},
    "care": {1: 0.5, 0: 0.4},
    "run": {0: 0.1},
    "empty": {},
}
COMPOUNDS: dict[str, dict[int, float]] = {
    "heart attack": {0: 1.0},
    "day care": {1: 0.7},
    "day care child": {1: 0.9},
    "out of date": {5: 0.3},
    "world war 2": {4: 0.8},
    "care bank": {2: 0.6},
    "u.s. bank": {5: 0.8},
}
IRREGULAR = {"children": "child", "leaves": "leaf"}
REEF_NAMES = ["body", "feeling", "plants", "stars", "war", "money"]
ISLAND_OF = [0, 0, 1, 1, 2, 2]
ARCHIPELAGO_OF = [0, 0, 1]


def build_model() -> Model:
    names = [*sorted(map(normalise, WORDS)), *sorted(map(normalise, COMPOUNDS))]
    tables = WORDS | COMPOUNDS
    ids = {name: index for index, name in enumerate(names)}
    n_reefs = len(REEF_NAMES)
    reef_words = np.array(
        [sum(reef in reefs for reefs in tables.values()) for reef in range(n_reefs)], dtype=np.uint32
    )
    parameters = Bm25Parameters(1.2, 0.75, float(reef_words.mean()))
    rows = []
    for name in names:
        idf = reef_idf(max(len(tables[name]), 1), n_reefs)
        reefs = np.array(sorted(tables[name]), dtype=np.int64)
        strengths = np.array([tables[name][reef] for reef in reefs.tolist()], dtype=np.float64)
        values = quantise_bm25(reef_bm25(idf, strengths, reef_words[reefs].astype(float), parameters))
        rows.append((reefs, values))
    forms = {name: ids[name] for name in map(normalise, WORDS)}
    forms |= {form: ids[word] for form, word in IRREGULAR.items()}
    stems = {stem(name): ids[name] for name in map(normalise, WORDS)}
    trie = CompoundTrie.build((name.split(), ids[name]) for name in map(normalise, COMPOUNDS))
    rng = np.random.default_rng(7)

    def table(words: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        hashes = fnv1a64_many(list(words))
        order = np.argsort(hashes)
        return hashes[order], np.array(list(words.values()), dtype=np.uint32)[order]

    form_hashes, form_words = table(forms)
    stem_hashes, stem_words = table(stems)
    n_entries = sum(len(reefs) for reefs, _ in rows)
    weights = quantise_weights(rng.uniform(2.0, 12.0, len(names)))
    background = np.stack((rng.uniform(0.2, 1.5, n_reefs), rng.uniform(0.5, 4.0, n_reefs)))
    return Model(
        version="test",
        checksum="",
        hierarchy=Hierarchy(
            tuple(Archipelago(i, f"archipelago {i}") for i in range(2)),
            tuple(Island(i, f"island {i}", ARCHIPELAGO_OF[i]) for i in range(3)),
            tuple(
                Reef(i, name, ISLAND_OF[i], int(reef_words[i]), ("word",))
                for i, name in enumerate(REEF_NAMES)
            ),
        ),
        bm25=parameters,
        words=names,
        n_compounds=len(COMPOUNDS),
        form_hashes=form_hashes,
        form_words=form_words,
        stem_hashes=stem_hashes,
        stem_words=stem_words,
        part_hashes=trie.part_hashes,
        trie_keys=trie.keys,
        trie_words=trie.node_words,
        row_starts=np.cumsum([0, *(len(reefs) for reefs, _ in rows)]).astype(np.uint32),
        row_reefs=np.concatenate([reefs for reefs, _ in rows]).astype(np.uint8),
        row_bm25=np.concatenate([values for _, values in rows]),
        sense_words=np.arange(1, len(names), dtype=np.uint32),
        sense_vectors=np.append(
            np.zeros((1, 4)), np.random.default_rng(8).integers(-60, 60, (len(names) - 1, 4)), axis=0
        ).astype(np.int8),
        sense_directions=np.random.default_rng(9).integers(-60, 60, (4, n_reefs)).astype(np.int8),
        sense_offsets=np.linspace(-0.5, 0.5, n_reefs),
        meanings=np.append(
            np.zeros((1, 3)), np.random.default_rng(10).integers(-60, 60, (len(names) - 1, 3)), axis=0
        ).astype(np.int8),
        row_support=rng.integers(0, 16, n_entries).astype(np.uint8),
        reef_trust=np.array([0.0, -1.5, 1.0, 0.0, NEVER, 0.5]),
        name_words=np.packbits(np.arange(len(names)) % 3 == 0),
        weights=weights,
        reef_words=reef_words,
        background=background,
        dispersion=np.array([0.1, 0.6]),
        label_background=background / 2,
        label_dispersion=np.array([0.05, 0.7]),
    )
