"""Count running text again for built data: ``python -m lagoon.build.recount --running-text PATH...``

Replaces weights of words, backgrounds, dispersions and support, and keeps words and reefs. This is enough
after a change of how tokens are looked up, and needs neither WordNet nor the encoder. Running text alone
gives a word support for reefs that its texts are about. What the teacher (`lagoon.build.senses`) says of the
word alone weighs it, so this is the last step of a build. With ``--labels`` it keeps all that rankings use.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

from lagoon.bm25 import BM25_SCALE, quantise_weights
from lagoon.build import counting
from lagoon.build.pipeline import Parameters, Sources, read_running_text, with_background, with_support
from lagoon.build.senses import TEACHER, Teacher, read_teacher, shares_of_support
from lagoon.model import MANIFEST, Model, load_model, save_model
from lagoon.vocabulary import BaseVocabulary

DATA = Path(__file__).parent.parent / "data"

_log = logging.getLogger("lagoon.build.recount")


def recount(
    model: Model, running_text: Sequence[Path], parameters: Parameters, teacher: Teacher, *, labels_only: bool
) -> Model:
    """The model with the statistics of running text that follow from its associations."""
    sources = Sources(wordnet=Path(), running_text=tuple(running_text), cache=Path())
    running = read_running_text(BaseVocabulary(model), sources, parameters)
    _log.info("%d windows of running text", running.n_windows)
    bm25 = sparse.csr_matrix(
        (
            model.row_bm25.astype(np.float64) / BM25_SCALE,
            model.row_reefs.astype(np.int32),
            model.row_starts.astype(np.int64),
        ),
        (model.n_words, model.n_reefs),
    )
    if not labels_only:
        rarity = counting.rarity(running.document_frequencies, running.n_windows)
        model = with_background(replace(model, weights=quantise_weights(rarity)), bm25, running)
    return with_support(model, bm25, running, shares_of_support(model, teacher))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lagoon.build.recount", description=__doc__)
    parser.add_argument("--running-text", type=Path, nargs="+", required=True, help="as for lagoon.build")
    parser.add_argument("--labels", action="store_true", help="count only what labels use")
    parser.add_argument("--teacher", type=Path, default=TEACHER, help="judgements; default %(default)s")
    parser.add_argument("--data", type=Path, default=DATA, help="data to count with; default %(default)s")
    parser.add_argument("--output", type=Path, help="folder for the new data; default: that of --data")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)7d ms  %(message)s")
    manifest = json.loads((options.data / MANIFEST).read_text(encoding="utf-8"))
    parameters = Parameters(**manifest["parameters"])
    model, teacher = load_model(options.data, verify=True), read_teacher(options.teacher)
    counted = recount(model, options.running_text, parameters, teacher, labels_only=options.labels)
    kept = {name: manifest[name] for name in ("parameters", "sources")}
    checksum = save_model(counted, options.output or options.data, kept)
    _log.info("wrote %s, checksum %s", options.output or options.data, checksum)


if __name__ == "__main__":
    main()
