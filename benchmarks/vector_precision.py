"""What the precision of stored vectors costs: quality of the ranking and bytes, at 32, 8 and 4 bits each.

usage: SHOAL_ENCODER=local:FOLDER python -m benchmarks.vector_precision COLLECTION...

Passages are embedded as Shoal embeds them: title, blank line, text of the chunk. Prints a line for each
collection and one for their mean:

    vectors     nDCG@10 of vectors alone, by precision
    blend       nDCG@10 of Shoal's hybrid scores and vectors, both over their largest score, by precision
    error       root mean square error of a cosine, by precision
    bytes       of the text of a chunk; of its vector in the database and the index together, at 4 bits
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hybrid import FeedbackOptions, default_blend, feedback_profiles
from benchmarks.judged_library import Doubles, JudgedLibrary, of_best
from shoal.encoders.encoder import Encoder, Floats, TextKind, open_encoder
from shoal.index.vectors import SCALE_BYTES, code_bytes, dequantised, quantised
from shoal.settings import Settings
from shoal.storage.vectors import embedded_text

LEVELS_OF_8_BITS = 127
TEXTS_TOGETHER = 256
ROW_BYTES = 42
"""Measured: what a vector takes in the database besides itself, with its hash and the index of hashes."""
TEXTS = """
    SELECT d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id
    ORDER BY c.document_id, c.id
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="+", type=Path)
    options = parser.parse_args()
    encoder = open_encoder(Settings.from_environment())
    if encoder is None:
        parser.error("set SHOAL_ENCODER")
    rows = []
    for folder in options.collections:
        with tempfile.TemporaryDirectory() as scratch:
            rows.append(measure(folder, Path(scratch), encoder))
            print(json.dumps(rows[-1]), flush=True)
    means = {
        part: {name: round(float(np.mean([row[part][name] for row in rows])), 4) for name in rows[0][part]}
        for part in ("vectors", "blend", "error", "bytes")
    }
    print(json.dumps({"collection": "mean", **means}))


def measure(folder: Path, scratch: Path, encoder: Encoder) -> dict[str, Any]:
    """Measure a collection."""
    library = JudgedLibrary(folder, scratch / "shoal.db", learning=True)
    with library.engine.database.snapshot() as snapshot:
        texts = list(snapshot.tuples(TEXTS))
    stored = _embedded(encoder, [embedded_text(*each) for each in texts], TextKind.document)
    queries = _embedded(encoder, library.texts, TextKind.query)
    exact = queries @ stored.T
    cosines = {name: queries @ each.T for name, each in precisions(stored).items()}
    reefs = of_best(library.overlap(feedback_profiles(library, FeedbackOptions())))
    shoal = of_best(default_blend(library, of_best(library.lexical()), reefs))
    nearest = {name: of_best(np.maximum(each.astype(np.float64), 0.0)) for name, each in cosines.items()}
    text_bytes = float(np.mean([len(text.encode()) for _, text in texts]))
    n_bytes = 2 * (code_bytes(stored.shape[1]) + SCALE_BYTES) + ROW_BYTES
    row = {
        "collection": folder.name,
        "chunks": len(texts),
        "vectors": _ndcg(library, nearest),
        "blend": _ndcg(library, {name: shoal + each for name, each in nearest.items()}),
        "error": {
            name: round(float(np.sqrt(np.mean((each - exact) ** 2))), 5) for name, each in cosines.items()
        },
        "bytes": {"text": round(text_bytes), "vector": n_bytes},
    }
    library.engine.close()
    return row


def precisions(vectors: Floats) -> Mapping[str, Floats]:
    """The vectors as they are after they were stored at each precision."""
    scales = np.abs(vectors).max(axis=1, keepdims=True) / LEVELS_OF_8_BITS
    return {
        "f32": vectors,
        "int8": np.asarray(np.rint(vectors / scales) * scales, dtype=np.float32),
        "int4": dequantised(quantised(vectors), vectors.shape[1]),
    }


def _embedded(encoder: Encoder, texts: list[str], kind: TextKind) -> Floats:
    parts = range(0, len(texts), TEXTS_TOGETHER)
    return np.concatenate([encoder.embed(texts[start : start + TEXTS_TOGETHER], kind) for start in parts])


def _ndcg(library: JudgedLibrary, scores: Mapping[str, Doubles]) -> dict[str, float]:
    return {name: round(library.ndcg(each), 4) for name, each in scores.items()}


if __name__ == "__main__":
    main()
