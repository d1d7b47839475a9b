"""Questions in several languages: does a library find the paragraph that answers them?

usage: python -m benchmarks.languages FOLDER [--every 4] [--from 0] [--only de,zh] [--modes hybrid]
       [--together-only] [--across en]

FOLDER has files LANGUAGE.json of the form of XQuAD: `language`, `corpus` (`_id`, `title`, `text`) and
`queries` (`_id`, `text`, `relevant`: the id of a paragraph). The paragraphs of each language become a library
of their own, and those of all languages one library. One question in `--every` is put to both. Prints
the mean reciprocal rank of the paragraph among the first 100

    alone     in the library of the language
    together  in the library of all languages, and its ratio to `alone`
    bm25s     of the library bm25s, if it is installed, with the stemmer of the language from PyStemmer, or
              with two neighbouring characters as a word in scripts without spaces; in the library of the
              language

    across    with `--across`, in the library of that language instead, by a search across languages: the
              wordnets of both must be in the folder wordnets/ or installed. The paragraphs of all
              languages have the same ids

and the seconds of processor time that a million characters of the paragraphs take to store.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import Stemmer

from shoal import DocFormat, Engine

TOP_K = 100
STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "hi": "hindi",
    "hr": "serbian",
    "id": "indonesian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
_NEIGHBOURS = {"zh", "ja", "th"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Texts:
    """The paragraphs and some questions of one language."""

    language: str
    corpus: Sequence[Mapping[str, Any]]
    queries: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path, every: int, first: int = 0) -> Texts:
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["language"], content["corpus"], content["queries"][first::every])

    @property
    def n_chars(self) -> int:
        return sum(len(paragraph["text"]) for paragraph in self.corpus)

    def key(self, paragraph_id: str) -> str:
        return f"{self.language}/{paragraph_id}"


Find = Callable[[str], Iterable[str]]


def mean_reciprocal_rank(texts: Texts, find: Find) -> float:
    """The mean over the questions of 1 / rank of the paragraph that answers each, 0 if it is not found."""
    found = []
    for query in texts.queries:
        wanted = texts.key(query["relevant"])
        ranks = (rank for rank, key in enumerate(find(query["text"]), 1) if key == wanted)
        found.append(1 / next(ranks, float("inf")))
    return statistics.mean(found)


def stored(engine: Engine, all_texts: Sequence[Texts]) -> float:
    """Store the paragraphs, and return the seconds of processor time that it took."""
    begin = time.process_time()
    engine.ingest_many(
        {
            "title": paragraph["title"],
            "content": paragraph["text"],
            "format": DocFormat.plaintext,
            "source_path": texts.key(paragraph["_id"]),
        }
        for texts in all_texts
        for paragraph in texts.corpus
    )
    return time.process_time() - begin


def finder(engine: Engine, mode: str) -> Find:
    """What finds the paragraphs of a library. A text that two languages share counts for the first."""

    def find(question: str) -> list[str]:
        reply = engine.search(question, top_k=TOP_K, mode=mode, max_per_document=1)
        return [result.source_path or "" for result in reply.results]

    return find


def across(all_texts: Sequence[Texts], texts: Texts, mode: str) -> None:
    """Print how the questions in other languages find the paragraphs of one."""
    with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
        stored(engine, [texts])
        for other in all_texts:
            begin = time.process_time()

            def find(question: str) -> list[str]:
                reply = engine.search(question, top_k=TOP_K, mode=mode, max_per_document=1, languages=["*"])
                return [result.source_path or "" for result in reply.results]

            asked = Texts(texts.language, texts.corpus, other.queries)
            rank = mean_reciprocal_rank(asked, find)
            milliseconds = (time.process_time() - begin) / len(other.queries) * 1000
            print(
                f"{mode}  {other.language}  across to {texts.language} {rank:.3f}  "
                f"{len(other.queries)} questions  {milliseconds:.1f} ms",
                flush=True,
            )


def rival(texts: Texts) -> Find:
    """What finds the paragraphs with bm25s."""
    import bm25s  # type: ignore[import-not-found]

    name = STEMMERS.get(texts.language)
    stemmer = Stemmer.Stemmer(name, 0) if name else None

    def words(text: str) -> list[str]:
        found = _WORD.findall(text.lower())
        if texts.language in _NEIGHBOURS:
            return [run[at : at + 2] for run in found for at in range(max(1, len(run) - 1))]
        return found if stemmer is None else list(stemmer.stemWords(found))

    retriever = bm25s.BM25()
    retriever.index(
        [words(f"{each['title'].replace('_', ' ')}\n{each['text']}") for each in texts.corpus],
        show_progress=False,
    )
    keys = [texts.key(each["_id"]) for each in texts.corpus]

    def find(question: str) -> list[str]:
        (places,), _ = retriever.retrieve([words(question)], k=min(TOP_K, len(keys)), show_progress=False)
        return [keys[int(place)] for place in places]

    return find


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--only", default="")
    parser.add_argument("--modes", default="hybrid")
    parser.add_argument("--together-only", action="store_true")
    parser.add_argument("--across", default="")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    paths = [path for path in sorted(args.folder.glob("*.json")) if not only or path.stem in only]
    if not paths:
        raise SystemExit(f"no files LANGUAGE.json in {args.folder}")
    all_texts = [Texts.read(path, args.every, args.first) for path in paths]
    has_rival = find_spec("bm25s") is not None
    if args.across:
        sys.path += map(str, (Path(__file__).parent.parent / "wordnets").iterdir())
        target = Texts.read(args.folder / f"{args.across}.json", args.every)
        for mode in args.modes.split(","):
            across(all_texts, target, mode)
        return
    for mode in args.modes.split(","):
        alone: dict[str, float] = {}
        for texts in [] if args.together_only else all_texts:
            with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
                seconds = stored(engine, [texts]) / texts.n_chars * 1e6
                alone[texts.language] = mean_reciprocal_rank(texts, finder(engine, mode))
            line = f"{mode}  {texts.language}  alone {alone[texts.language]:.3f}"
            if has_rival:
                line += f"  bm25s {mean_reciprocal_rank(texts, rival(texts)):.3f}"
            print(f"{line}  {len(texts.queries)} questions  {seconds:.1f} s", flush=True)
        if len(all_texts) < 2:
            continue
        with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
            stored(engine, all_texts)
            for texts in all_texts:
                together = mean_reciprocal_rank(texts, finder(engine, mode))
                line = f"{mode}  {texts.language}  together {together:.3f}"
                if alone.get(texts.language):
                    line += f"  {together / alone[texts.language]:.3f} of alone"
                print(line, flush=True)


if __name__ == "__main__":
    main()
