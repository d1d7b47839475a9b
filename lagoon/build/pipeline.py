"""Stages of the build, in order, from WordNet and running text to a model for `lagoon.model.save_model`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.bm25 import WEIGHT_SCALE, Bm25Parameters, quantise_weights
from lagoon.build import clustering, counting
from lagoon.build.clustering import Clustering, Floats, Ints, anchored_centroids, unit_rows
from lagoon.build.counting import count_texts, count_windows, sample_windows, support_levels, vocabulary_model
from lagoon.build.lexicon import (
    Lexicon,
    WordNet,
    build_lexicon,
    lemma_ids,
    misled_inflections,
    read_wordnet,
    sense_links,
)
from lagoon.build.reefs import (
    ARCHIPELAGOS,
    K1,
    REEFS_FILE,
    B,
    NamedReef,
    Taxonomy,
    TaxonomyError,
    association_strengths,
    build_table,
    read_taxonomy,
)
from lagoon.build.word_vectors import (
    WORDS_AT_ONCE,
    Whitening,
    encode,
    fit_whitening,
    fit_word_vectors,
    largest_prefix_shares,
    mean_rows,
    spelling_directions,
    without,
)
from lagoon.model import SUPPORT_STEPS, Archipelago, Hierarchy, Island, Model, Reef
from lagoon.tokens import tokenise
from lagoon.vocabulary import BaseVocabulary

_log = logging.getLogger(__name__)

_FREQUENT = 300
"""Windows of running text; words in more windows get no more weight in the position of a reef."""
SAMPLE_SIZES = tuple(2**power for power in range(3, 12))
"""Window sizes in tokens, 8 to 2,048: from a query to a long section."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Inputs of the build, and the folder for embeddings between runs."""

    wordnet: Path
    running_text: tuple[Path, ...]
    cache: Path
    threads: int = 2
    reefs: Path = REEFS_FILE


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the data, stored in its manifest. docs/lagoon-data.md explains the defaults."""

    ridge: float = 0.03
    prior_share: float = 0.3
    regression_steps: int = 25
    spelling_directions: int = 60
    shrinkage: float = 0.3
    pull: float = 0.3
    rounds: int = 12
    own_share: float = 1.0
    window_tokens: int = 100
    sample_spacing: int = 4096
    reefs_of_common_words: int = 10
    reefs_of_rare_words: int = 6
    strength_power: float = 0.6
    clear_cosine: float = 0.4


@dataclass(frozen=True, slots=True)
class RunningText:
    """Statistics of running text: word counts of its windows, windows with each word, sum of each word's
    repetition weights, and word counts of sampled windows of each of SAMPLE_SIZES."""

    windows: sparse.csr_matrix
    document_frequencies: npt.NDArray[np.int64]
    mass: npt.NDArray[np.float64]
    samples: list[sparse.csr_matrix]

    @property
    def n_windows(self) -> int:
        return int(self.windows.shape[0])


def build_model(sources: Sources, parameters: Parameters, version: str) -> Model:
    """Run all stages. Deterministic for given sources and parameters, except for the floating-point
    arithmetic of the encoder and of BLAS on another machine."""
    wordnet = read_wordnet(sources.wordnet)
    lexicon = with_inflections(build_lexicon(wordnet), sources)
    base = vocabulary_model(lexicon)
    vocabulary = BaseVocabulary(base)
    _log.info("%d words, %d of them compounds", len(lexicon.words), base.n_compounds)
    running = read_running_text(vocabulary, sources, parameters)
    _log.info("%d windows of running text", running.n_windows)
    taxonomy = read_taxonomy(sources.reefs)
    vectors = learn_vectors(wordnet, lexicon, vocabulary, sources, parameters)
    common = words_of_running_text(lexicon, running)
    whiten = whitening_of(vectors, common, running, parameters)
    points = whiten(vectors)
    reefs = place_reefs(points, common, taxonomy, lexicon, running, parameters)
    _log_spelling(lexicon, common, reefs)
    strengths = association_strengths(
        with_own_meaning(vectors, whiten, lexicon, common, sources, parameters),
        reefs.centroids,
        reefs_kept(lexicon, running, parameters),
        parameters.strength_power,
        parameters.clear_cosine,
    )
    return assemble(base, lexicon, running, points, reefs.centroids, taxonomy, strengths, version)


def learn_vectors(
    wordnet: WordNet, lexicon: Lexicon, vocabulary: BaseVocabulary, sources: Sources, parameters: Parameters
) -> Floats:
    """Learn a unit vector for every word, such that the words of a gloss add up to the embedding of the
    gloss."""
    embeddings = encode(
        [synset.gloss for synset in wordnet.synsets], sources.cache, name="glosses", threads=sources.threads
    )
    target = embeddings - embeddings.mean(axis=0)
    fit = fit_word_vectors(
        gloss_design(wordnet, lexicon, vocabulary),
        target,
        ridge=parameters.ridge,
        prior=parameters.prior_share * sense_means(wordnet, lexicon, target),
        max_iterations=parameters.regression_steps,
    )
    return _without_spelling(unit_rows(fit.vectors), lexicon, parameters)


def with_own_meaning(
    vectors: Floats,
    whiten: Whitening,
    lexicon: Lexicon,
    common: Ints,
    sources: Sources,
    parameters: Parameters,
) -> Floats:
    """Whitened sums of the gloss vectors and the embeddings of the words themselves, for the table.

    The embedding of a word alone separates words whose glosses share topics. It also places words with the
    same beginning near each other, more than glosses do, so reefs are placed without it.
    """
    own = encode(lexicon.words, sources.cache, name="words", threads=sources.threads, batch=WORDS_AT_ONCE)
    own = _without_spelling(unit_rows(own - own[common].mean(axis=0)), lexicon, parameters)
    return whiten(unit_rows(vectors + parameters.own_share * own))


def _without_spelling(vectors: Floats, lexicon: Lexicon, parameters: Parameters) -> Floats:
    singles = vectors[: lexicon.n_singles]
    words = lexicon.words[: lexicon.n_singles]
    return without(vectors, spelling_directions(singles, words, parameters.spelling_directions))


def words_of_running_text(lexicon: Lexicon, running: RunningText) -> Ints:
    """Ids of the single words that occur in running text."""
    return np.flatnonzero(running.document_frequencies[: lexicon.n_singles] > 0)


def whitening_of(vectors: Floats, common: Ints, running: RunningText, parameters: Parameters) -> Whitening:
    """Fit the whitening to the words ``common``, about the mean of running text, with the scorer's word
    weights."""
    share = counting.rarity(running.document_frequencies, running.n_windows) * running.mass
    middle = np.asarray(share @ vectors / share.sum(), dtype=np.float32)
    return fit_whitening(vectors[common], middle, parameters.shrinkage)


def with_inflections(lexicon: Lexicon, sources: Sources) -> Lexicon:
    """Add the regular inflections of running text that the stemmer maps to a wrong word or to none."""
    seen = {form for text in _texts(sources) for form in tokenise(text).forms}
    added = misled_inflections(lexicon, seen)
    _log.info("%d inflections added that the stemmer does not map to their word", len(added))
    return replace(lexicon, forms={**lexicon.forms, **added})


def _texts(sources: Sources) -> Iterator[str]:
    return counting.read_texts(sources.running_text)


def read_running_text(vocabulary: BaseVocabulary, sources: Sources, parameters: Parameters) -> RunningText:
    """Count the words of running text in windows of ``window_tokens`` tokens."""
    counts = count_windows(vocabulary, _texts(sources), parameters.window_tokens)
    return RunningText(
        counts,
        counting.document_frequencies(counts),
        counting.repetition_mass(counts),
        sample_windows(vocabulary, _texts(sources), SAMPLE_SIZES, parameters.sample_spacing),
    )


def gloss_design(wordnet: WordNet, lexicon: Lexicon, vocabulary: BaseVocabulary) -> sparse.csr_matrix:
    """Design matrix: glosses as means of their lemmas and words, weighted by inverse gloss frequency."""
    in_gloss = count_texts(vocabulary, [synset.gloss for synset in wordnet.synsets])
    lemmas = [lemma_ids(lexicon, synset) for synset in wordnet.synsets]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in lemmas])])
    words = np.concatenate([np.array(row, dtype=np.int64) for row in lemmas])
    own = sparse.csr_matrix((np.ones(len(words)), words, starts), in_gloss.shape)
    counts = sparse.csr_matrix(own + in_gloss)
    return mean_rows(counts, counting.rarity(counting.document_frequencies(counts), counts.shape[0]))


def sense_means(wordnet: WordNet, lexicon: Lexicon, embeddings: Floats) -> Floats:
    """Mean embedding of every word's synsets, weighted by the frequency of each sense."""
    links = sense_links(lexicon, wordnet.senses)
    shape = (len(lexicon.words), len(wordnet.synsets))
    return np.asarray(
        sparse.csr_matrix((links.shares, (links.words, links.synsets)), shape) @ embeddings, dtype=np.float32
    )


def place_reefs(
    points: Floats,
    common: Ints,
    taxonomy: Taxonomy,
    lexicon: Lexicon,
    running: RunningText,
    parameters: Parameters,
) -> Clustering:
    """Compute the centroids of the reefs from the single words of running text (``common``, indices of
    ``points``).

    Rare names and terms are assigned to reefs but do not influence the centroids; of the other words,
    frequent ones have more weight than rare ones.

    Raises:
        TaxonomyError: if a typical word of a reef is not among these words.
    """
    row_of = {int(word): row for row, word in enumerate(common)}
    anchors = [_anchor_rows(reef, lexicon, row_of) for reef in taxonomy.reefs]
    frequencies = running.document_frequencies[common]
    reefs = anchored_centroids(
        points[common],
        anchors,
        pull=parameters.pull,
        rounds=parameters.rounds,
        weights=np.log1p(np.minimum(frequencies, _FREQUENT)).astype(np.float32),
    )
    kept = [float((reefs.labels[rows] == number).mean()) for number, rows in enumerate(anchors)]
    _log.info("%.1f %% of the typical words are nearest to their own reef", 100 * float(np.mean(kept)))
    for reef, share in zip(taxonomy.reefs, kept, strict=True):
        if share < 0.5:
            _log.warning("%s: only %.0f %% of its typical words stayed with it", reef.name, 100 * share)
    return reefs


def _anchor_rows(reef: NamedReef, lexicon: Lexicon, row_of: dict[int, int]) -> Ints:
    words = [word for anchor in reef.anchors for word in lexicon.lookup([anchor])]
    rows = [row_of.get(word, -1) for word in words]
    if len(rows) != len(reef.anchors) or min(rows) < 0:
        known = {
            anchor for anchor in reef.anchors if any(word in row_of for word in lexicon.lookup([anchor]))
        }
        unknown = ", ".join(sorted(set(reef.anchors) - known))
        raise TaxonomyError(f"typical words of {reef.name!r} that are not in running text: {unknown}")
    return np.array(rows, dtype=np.intp)


def _log_spelling(lexicon: Lexicon, common: Ints, reefs: Clustering) -> None:
    words = [lexicon.words[word] for word in common]
    shares = largest_prefix_shares(words, reefs.labels, len(reefs.centroids))
    _log.info("%d reefs mostly have words with the same first letter", sum(share > 0.6 for share in shares))


def reefs_kept(lexicon: Lexicon, running: RunningText, parameters: Parameters) -> Ints:
    """Maximum number of reefs of each word: fewer for compounds and for words that are not in running
    text."""
    kept = np.full(len(lexicon.words), parameters.reefs_of_rare_words, dtype=np.intp)
    seen = running.document_frequencies[: lexicon.n_singles] > 0
    kept[: lexicon.n_singles][seen] = parameters.reefs_of_common_words
    return kept


def assemble(
    base: Model,
    lexicon: Lexicon,
    running: RunningText,
    points: Floats,
    centroids: Floats,
    taxonomy: Taxonomy,
    strengths: sparse.csr_matrix,
    version: str,
) -> Model:
    """Quantise the table, measure the background of the quantised table, and list typical words."""
    built = build_table(strengths)
    weights = quantise_weights(counting.rarity(running.document_frequencies, running.n_windows))
    bm25 = built.matrix(len(centroids))
    typical = clustering.typical_words(
        lexicon.words[: lexicon.n_singles],
        points[: lexicon.n_singles],
        centroids,
        np.asarray(strengths[: lexicon.n_singles].argmax(axis=1)).ravel(),
        running.document_frequencies[: lexicon.n_singles],
    )
    model = replace(
        base,
        version=version,
        hierarchy=_hierarchy(taxonomy, typical, built.reef_words),
        bm25=Bm25Parameters(K1, B, built.avg_reef_words),
        row_starts=built.starts,
        row_reefs=built.reefs,
        row_bm25=built.bm25_q,
        weights=weights,
        reef_words=built.reef_words,
        sense_directions=np.zeros((0, len(centroids)), np.int8),
        sense_offsets=np.zeros(len(centroids)),
        reef_trust=np.zeros(len(centroids)),
    )
    return with_background(model, bm25, running)


def with_background(model: Model, bm25: sparse.csr_matrix, running: RunningText) -> Model:
    """Measure what running text says about the associations `bm25` (n_words, n_reefs) of a model: the
    background of contributions, and what `with_support` measures."""
    contributions = _contributions(model, bm25)
    moments = counting.contribution_moments(contributions, running.mass)
    dispersion = counting.dispersion(running.samples, contributions, moments)
    return with_support(replace(model, background=moments, dispersion=dispersion), bm25, running)


def with_support(
    model: Model,
    bm25: sparse.csr_matrix,
    running: RunningText,
    shares: npt.NDArray[np.float64] | float = 1.0,
) -> Model:
    """Measure the support of the associations `bm25` (n_words, n_reefs) of a model, and the background of
    supported contributions: what labels use and rankings do not. `shares` (associations,), 0..1, weigh it."""
    contributions = _contributions(model, bm25)
    levels = support_levels(bm25, contributions, running.windows, model.background, model.dispersion)
    levels = np.rint(levels * shares).astype(np.uint8)
    supported = contributions.copy()
    supported.data *= levels / SUPPORT_STEPS
    moments = counting.contribution_moments(supported, running.mass)
    return replace(
        model,
        row_support=levels,
        label_background=moments,
        label_dispersion=counting.dispersion(running.samples, supported, moments),
    )


def _contributions(model: Model, bm25: sparse.csr_matrix) -> sparse.csr_matrix:
    contributions = sparse.csr_matrix(sparse.diags(model.weights / WEIGHT_SCALE) @ bm25)
    contributions.sort_indices()
    return contributions


def _hierarchy(
    taxonomy: Taxonomy, typical: list[tuple[str, ...]], reef_words: npt.NDArray[np.uint32]
) -> Hierarchy:
    archipelagos = tuple(Archipelago(i, name) for i, name in enumerate(ARCHIPELAGOS))
    islands = tuple(Island(i, island.name, island.archipelago) for i, island in enumerate(taxonomy.islands))
    reefs = tuple(
        Reef(i, reef.name, reef.island, int(reef_words[i]), typical[i])
        for i, reef in enumerate(taxonomy.reefs)
    )
    return Hierarchy(archipelagos, islands, reefs)
