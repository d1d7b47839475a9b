"""Print clusters of words for a person to name: `python -m lagoon.build.draft > clusters.txt`.

`reefs.toml` was written from this output. The words of running text are clustered by plain spherical k-means.
Each line is a cluster with its size and typical words, most typical first; similar clusters are on adjacent
lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.cluster import hierarchy

from lagoon.build.clustering import spherical_kmeans, typical_words
from lagoon.build.counting import vocabulary_model
from lagoon.build.lexicon import build_lexicon, read_wordnet
from lagoon.build.pipeline import (
    Parameters,
    Sources,
    learn_vectors,
    read_running_text,
    whitening_of,
    with_inflections,
    words_of_running_text,
)
from lagoon.vocabulary import BaseVocabulary

WORDS_SHOWN = 20


def clusters(sources: Sources, parameters: Parameters, n_clusters: int, seed: int) -> Iterator[str]:
    """Yield a line for each cluster: number of words, typical words."""
    wordnet = read_wordnet(sources.wordnet)
    lexicon = with_inflections(build_lexicon(wordnet), sources)
    vocabulary = BaseVocabulary(vocabulary_model(lexicon))
    running = read_running_text(vocabulary, sources, parameters)
    vectors = learn_vectors(wordnet, lexicon, vocabulary, sources, parameters)
    common = words_of_running_text(lexicon, running)
    points = whitening_of(vectors, common, running, parameters)(vectors)[common]
    frequencies = running.document_frequencies[common]
    clustering = spherical_kmeans(
        points, n_clusters, seed=seed, weights=np.log1p(frequencies).astype(np.float32)
    )
    words = [lexicon.words[word] for word in common]
    typical = typical_words(words, points, clustering.centroids, clustering.labels, frequencies, WORDS_SHOWN)
    sizes = np.bincount(clustering.labels, minlength=n_clusters)
    order = hierarchy.leaves_list(hierarchy.linkage(clustering.centroids, "average", metric="cosine"))
    for number in order.tolist():
        yield f"{sizes[number]:5d}  {', '.join(typical[number])}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the clusters; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m lagoon.build.draft", description=__doc__)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--running-text", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "lagoon-build")
    parser.add_argument("--clusters", type=int, default=207)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    sources = Sources(options.wordnet, tuple(options.running_text), options.cache)
    for line in clusters(sources, Parameters(), options.clusters, options.seed):
        sys.stdout.write(line + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
