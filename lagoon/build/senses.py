"""Learn which reefs a passage is about, and which words are names: ``python -m lagoon.build.senses``

The table of reefs says what a word can be about. Whether a passage is about it depends on the other words:
"iPhone" and "quarter" speak against fruits beside "apple". A teacher judges passages of running text: the
similarity of a passage to the *name* of each reef by the encoder, standardised over the reefs of the passage.
A linear model of words learns to repeat that judgement, so that the scorer needs no encoder:

    judgement(passage, r) = offset(r) + mean of weight(w, r) over the words w of the passage,

where a word counts by its rarity and its repetitions, as it does for the scorer. The weights begin at a share
of the teacher's judgement of the word alone, and ridge regression changes them by what the passages say. They
are stored as products of a short vector of each word and one of each reef. How far a reef is trusted as a
label, whatever its words say, is declared in ``lagoon/build/reef_trust.toml``.

The same passages decide which words are names where they have a capital (`lagoon.sentences`). Running text
writes such a word in lower case at least now and then ("an apple"). Words that are always names ("Madrid")
keep their reefs. So do words that stand in the names of many things of their kind ("Lake Superior", "the
Church"): many texts write them with a capital, and the passages that do are about the reefs of the word
nearly as much as those with lower case, says the teacher.

``teach`` draws passages and writes the judgements, quantised, to the teacher file; it needs the encoder.
``fit`` needs the teacher file and the running text only, and two runs give identical files. Texts that hold
judged passages (``--except``) are not drawn, so that `benchmarks/label_truth.py` measures texts never seen.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.analysis import TEXT_BREAK
from lagoon.bm25 import WEIGHT_SCALE
from lagoon.build.counting import count_texts
from lagoon.compounds import fnv1a64_many
from lagoon.model import MANIFEST, NEVER, Model, load_model, save_model
from lagoon.reading import Reading, read_long
from lagoon.sentences import inside_prose, sentence_spans
from lagoon.vocabulary import BaseVocabulary, CustomWords

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAST_LOWER_SHARE = 0.1
"""Of the places of a word in prose where a capital would show something."""
FEWEST_TEXTS = 60
"""A word that stands in names of many kinds has a capital in so many texts of running text."""
FEWEST_PASSAGES_OF_NAME = 4
LEAST_KEPT = 0.55
"""Mean judgement of a word's reefs in passages with a capital, as a share of that with lower case."""
LEAST_JUDGEMENT = 0.3
Doubles = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
DATA = Path(__file__).parent.parent / "data"
TEACHER = Path(__file__).parent / "sense_teacher.npz"
PASSAGE_CHARS = 380
"""A passage ends with the first sentence that reaches this length."""
LEAST_CHARS, MOST_CHARS = 200, 700
PASSAGES_PER_TEXT = 36
FEWEST_PASSAGES = 2
"""Words in fewer drawn passages get no weights."""
JUDGED_TOKENS = 128
LEVEL_STEP, LOWEST_LEVEL = 0.5, -2.0
"""Judgements are stored in 16 levels, two in a byte."""
RIDGE = 0.06
ITERATIONS = 20
"""Steps of conjugate gradients; chosen with RIDGE by the explained variance of texts that were left out."""
N_DIRECTIONS = 96
"""Dimensions of the sense vectors: of 207, the correlation with the teacher in texts that were left out is
.77, of 96 as good as that, of 64 .75, and with the 12 largest weights of each word .62."""
N_MEANINGS = 48
"""Dimensions of the meanings of words: on judged pairs of words, all 207 separate no better."""
MOST_WEIGHT = 127
WITHIN_RANGE = 0.9995
"""Share of the components of vectors that are not cut off."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])")
_HEADING = re.compile(r"==+[^=]*==+")
_log = logging.getLogger("lagoon.build.senses")
TRUST = Path(__file__).parent / "reef_trust.toml"


def with_name_words(
    model: Model, texts: Iterable[str], passages: Sequence[str], judgements: Doubles
) -> Model:
    """The model with `name_words` by running text. `judgements` (passages, reefs) as from the teacher."""
    vocabulary, custom = BaseVocabulary(model), CustomWords(model)
    with_capital, in_lower_case, texts_with_capital = np.zeros((3, model.n_words), dtype=np.int64)
    for text in texts:
        sentences, _ = sentence_spans(text)
        places = _Places.of(read_long(text, sentences, vocabulary, custom), sentences)
        counted = np.bincount(places.words[places.capital], minlength=model.n_words)
        with_capital += counted
        texts_with_capital += counted > 0
        in_lower_case += np.bincount(places.words[places.lower], minlength=model.n_words)
    is_written_small = in_lower_case > LEAST_LOWER_SHARE * (with_capital + in_lower_case)
    keeps = (texts_with_capital >= FEWEST_TEXTS) & _keeps_reefs(model, vocabulary, passages, judgements)
    return replace(model, name_words=np.packbits(is_written_small & ~keeps))


@dataclass(frozen=True)
class _Places:
    """Occurrences of words with the offsets where they begin; those with a capital that shows something, and
    those in lower case."""

    words: Longs
    starts: Longs
    capital: Bools
    lower: Bools

    @staticmethod
    def of(reading: Reading, sentences: Longs) -> _Places:
        tokens = reading.tokens
        last = reading.hit_tokens + reading.hit_lengths - 1
        bounds = np.append(np.searchsorted(tokens.starts, sentences), len(tokens))
        capital = tokens.capital[last]
        shown = inside_prose(reading, last, bounds)
        return _Places(reading.hit_words, tokens.starts[reading.hit_tokens], capital & shown, ~capital)


def _keeps_reefs(
    model: Model, vocabulary: BaseVocabulary, passages: Sequence[str], judgements: Doubles
) -> Bools:
    """Whether passages with each word in capitals are about its reefs about as much as others, (words,)."""
    text = TEXT_BREAK.join(passages)
    lengths = np.array([len(passage) + len(TEXT_BREAK) for passage in passages])
    begins = np.cumsum(lengths) - lengths
    sentences = np.union1d(sentence_spans(text)[0], begins)
    places = _Places.of(read_long(text, sentences, vocabulary, CustomWords(model)), sentences)
    passage_of = np.searchsorted(begins, places.starts, side="right") - 1
    strengths = sparse.csr_matrix(
        (model.row_bm25 * model.row_support.astype(np.float64), model.row_reefs, model.row_starts),
        (model.n_words, model.n_reefs),
    )
    centred = judgements - judgements.mean(axis=0)
    means = []
    for chosen in (places.capital, places.lower):
        pairs = np.unique(passage_of[chosen] * model.n_words + places.words[chosen])
        at, words = np.divmod(pairs, model.n_words)
        rows = strengths[words]
        sums = np.asarray(rows.multiply(centred[at]).sum(axis=1)).ravel()
        judged = sums / np.maximum(np.asarray(rows.sum(axis=1)).ravel(), 1.0)
        n_passages = np.bincount(words, minlength=model.n_words)
        total = np.bincount(words, weights=judged, minlength=model.n_words)
        means.append(np.where(n_passages >= FEWEST_PASSAGES_OF_NAME, total / np.maximum(n_passages, 1), 0.0))
    capital, lower = means
    keeps: Bools = (lower >= LEAST_JUDGEMENT) & (capital >= LEAST_KEPT * lower)
    return keeps


@dataclass(frozen=True, slots=True)
class Teacher:
    """Judgements of passages and of words alone, in units of z.

    passage_keys  u64 (passages,): hash of each passage;  passages  (passages, reefs)
    word_keys     u64 (words,): hash of each normal form;  words     (words, reefs)
    """

    passage_keys: npt.NDArray[np.uint64]
    passages: Doubles
    word_keys: npt.NDArray[np.uint64]
    words: Doubles


def write_teacher(path: Path, teacher: Teacher) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(
            stream,
            n_reefs=np.array(teacher.words.shape[1]),
            passage_keys=teacher.passage_keys,
            passages=_levels(teacher.passages),
            word_keys=teacher.word_keys,
            words=_levels(teacher.words),
        )


def read_teacher(path: Path) -> Teacher:
    with np.load(path, allow_pickle=False) as stored:
        n_reefs = int(stored["n_reefs"])
        return Teacher(
            stored["passage_keys"],
            _judgements(stored["passages"], n_reefs),
            stored["word_keys"],
            _judgements(stored["words"], n_reefs),
        )


def _levels(judgements: npt.NDArray[np.floating]) -> Bytes:
    """Pack (n, reefs) judgements, two levels in a byte."""
    levels = np.clip(np.rint((judgements - LOWEST_LEVEL) / LEVEL_STEP), 0, 15).astype(np.uint8)
    if levels.shape[1] % 2:
        levels = np.pad(levels, ((0, 0), (0, 1)))
    packed: Bytes = levels[:, ::2] | levels[:, 1::2] << np.uint8(4)
    return packed


def _judgements(packed: Bytes, n_reefs: int) -> Doubles:
    levels = np.stack((packed & 0xF, packed >> 4), axis=2).reshape(len(packed), -1)[:, :n_reefs]
    return levels * LEVEL_STEP + LOWEST_LEVEL


def named_texts(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """(name, text) of the files that `counting.read_texts` reads: name of a file, or field `_id` of a
    line."""
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.iterdir() if p.suffix in {".txt", ".md"}):
                yield file.name, file.read_text(encoding="utf-8", errors="replace")
        else:
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8") as stream:
                for line in stream:
                    record = json.loads(line)
                    yield str(record.get("_id", "")), str(record["text"])


def cut(text: str) -> list[str]:
    """Passages of running text: whole sentences, without headings."""
    passages: list[str] = []
    passage = ""
    for block in re.split(r"\n\s*\n", text):
        paragraph = " ".join(block.split())
        if paragraph.startswith("#"):
            continue
        for sentence in _SENTENCE_END.split(_HEADING.sub("", paragraph).strip()):
            passage = f"{passage} {sentence}".strip()
            if len(passage) >= PASSAGE_CHARS:
                passages.append(passage[:MOST_CHARS])
                passage = ""
        if len(passage) >= LEAST_CHARS:
            passages.append(passage)
            passage = ""
    return passages


def teach(model: Model, texts: Iterable[tuple[str, str]], excluded: set[str], n_passages: int) -> Teacher:
    """Draw passages of `texts` whose names are not `excluded`, and judge them and their words."""
    from lagoon.build.word_vectors import WORDS_AT_ONCE, Encoder

    rng = random.Random(5)
    drawn: list[str] = []
    for name, text in texts:
        passages = cut(text) if name not in excluded else []
        drawn += rng.sample(passages, min(PASSAGES_PER_TEXT, len(passages)))
    rng.shuffle(drawn)
    drawn = list(dict.fromkeys(drawn[:n_passages]))
    counts = count_texts(BaseVocabulary(model), drawn)
    frequencies = np.bincount(counts.indices, minlength=model.n_words)
    words = [model.words[int(word)] for word in np.flatnonzero(frequencies >= FEWEST_PASSAGES)]
    encoder = Encoder(threads=2)
    names = encoder.embed([reef.name for reef in model.hierarchy.reefs])
    of_passages = encoder.embed(drawn, max_tokens=JUDGED_TOKENS) @ names.T
    of_words = encoder.embed(words, batch=WORDS_AT_ONCE) @ names.T
    _log.info("%d passages and %d words judged", len(drawn), len(words))
    return Teacher(
        fnv1a64_many(drawn), standardised(of_passages), fnv1a64_many(words), standardised(of_words)
    )


def standardised(similarity: npt.NDArray[np.floating]) -> Doubles:
    """(n, reefs) similarities in standard deviations about the mean of each row."""
    values = similarity.astype(np.float64)
    centred: Doubles = values - values.mean(axis=1, keepdims=True)
    centred /= centred.std(axis=1, keepdims=True)
    return centred


def with_senses(model: Model, teacher: Teacher, passages: Sequence[str], judgements: Doubles) -> Model:
    """The model with sense weights that repeat the teacher's judgements (passages, reefs) of passages."""
    counts = count_texts(BaseVocabulary(model), passages)
    words, alone = _judged_words(model, teacher)
    mass = counts.astype(np.float64)
    mass.data = (1.0 + np.log(mass.data)) * (model.weights / WEIGHT_SCALE)[mass.indices]
    totals = np.maximum(np.asarray(mass.sum(axis=1)).ravel(), 1e-9)
    design = sparse.csr_matrix(sparse.diags(1.0 / totals) @ mass[:, words])
    middle = judgements.mean(axis=0)
    expected = design @ alone
    expected -= expected.mean(axis=0)
    share = float((expected * (judgements - middle)).sum() / (expected * expected).sum())
    weights = share * alone + _ridge(design, judgements - middle - share * expected)
    _log.info("share of the words' own judgement %.2f", share)
    vectors, directions = _factors(weights, design)
    return replace(
        model,
        sense_words=words.astype(np.uint32),
        sense_vectors=np.append(np.zeros_like(vectors.values[:1]), vectors.values, axis=0).astype(np.int8),
        sense_directions=directions.values.astype(np.int8),
        meanings=_meanings(alone),
        sense_offsets=np.round(
            middle / (vectors.step * directions.step)
            - (design @ vectors.values).mean(axis=0) @ directions.values,
            2,
        ),
    )


def _meanings(alone: Doubles) -> npt.NDArray[np.int8]:
    """A vector of zeros and one of each word, (words + 1, N_MEANINGS), from judgements of the words alone,
    (words, reefs). Large common directions count less, by the square root."""
    centred = alone - alone.mean(axis=0)
    squares, directions = np.linalg.eigh(centred.T @ centred)
    leading = slice(-1, -1 - N_MEANINGS, -1)
    vectors = centred @ directions[:, leading] / np.maximum(squares[leading], 1e-9) ** 0.25
    largest = float(np.quantile(np.abs(vectors), WITHIN_RANGE)) or 1.0
    levels = Quantised.of(vectors, largest).values.astype(np.int8)
    return np.append(np.zeros_like(levels[:1]), levels, axis=0)


@dataclass(frozen=True, slots=True)
class Quantised:
    """values * step, with whole values of at most MOST_WEIGHT."""

    values: Doubles
    step: float

    @staticmethod
    def of(values: Doubles, largest: float) -> Quantised:
        step = largest / MOST_WEIGHT
        return Quantised(np.clip(np.rint(values / step), -MOST_WEIGHT, MOST_WEIGHT), step)


def _factors(weights: Doubles, design: sparse.csr_matrix) -> tuple[Quantised, Quantised]:
    """Vectors (words, directions) and directions (directions, reefs) whose product is nearest to `weights`,
    each word counting by its share of the passages. What is the same for all reefs is left out."""
    centred = weights - weights.mean(axis=1, keepdims=True)
    shares = np.asarray(design.multiply(design).sum(axis=0)).ravel()
    _, directions = np.linalg.eigh(centred.T @ (centred * shares[:, None]))
    leading = directions[:, ::-1][:, :N_DIRECTIONS]
    vectors = centred @ leading
    largest = float(np.quantile(np.abs(vectors), WITHIN_RANGE))
    return Quantised.of(vectors, largest), Quantised.of(leading.T, float(np.abs(leading).max()))


def judged_passages(
    model: Model, teacher: Teacher, texts: Iterable[tuple[str, str]]
) -> tuple[list[str], Doubles]:
    """The passages of the teacher file that `texts` have, and its judgements of them, (passages, reefs).

    Raises ValueError if none is found, or if the teacher judged other reefs."""
    _check_reefs(model, teacher)
    row_of = {key: row for row, key in enumerate(teacher.passage_keys.tolist())}
    found: dict[int, str] = {}
    for _, text in texts:
        passages = cut(text)
        for passage, key in zip(passages, fnv1a64_many(passages).tolist() if passages else [], strict=True):
            if key in row_of:
                found[row_of[key]] = passage
    _log.info("%d of %d judged passages found", len(found), len(teacher.passage_keys))
    if not found:
        raise ValueError("no passage of the teacher file is in the running text")
    rows = sorted(found)
    return [found[row] for row in rows], teacher.passages[rows]


def _judged_words(model: Model, teacher: Teacher) -> tuple[npt.NDArray[np.int64], Doubles]:
    """Ids of the judged words, ascending, and what the teacher says of each alone."""
    row_of = {key: row for row, key in enumerate(teacher.word_keys.tolist())}
    forms = list(model.words)
    rows = [row_of.get(key, -1) for key in fnv1a64_many(forms).tolist()]
    words = np.flatnonzero(np.array(rows) >= 0)
    return words, teacher.words[np.array(rows)[words]]


def shares_of_support(model: Model, teacher: Teacher) -> Doubles:
    """What the teacher says of each association of a word alone, as a share of what it says most of, 0..1: of
    *raven*, half as much of reptiles as of birds. In the order of `row_reefs`; 1 for words it did not judge.

    Raises ValueError if the teacher judged other reefs."""
    _check_reefs(model, teacher)
    judged, alone = _judged_words(model, teacher)
    row_of = np.full(model.n_words, -1)
    row_of[judged] = np.arange(len(judged))
    starts = model.row_starts.astype(np.int64)
    words = np.repeat(np.arange(model.n_words), starts[1:] - starts[:-1])
    says = np.maximum(alone[row_of[words], model.row_reefs], 0.0)
    most = np.ones(model.n_words)
    np.maximum.at(most, words, says)
    return np.where(row_of[words] < 0, 1.0, says / most[words])


def _check_reefs(model: Model, teacher: Teacher) -> None:
    if teacher.words.shape[1] != model.n_reefs:
        raise ValueError(f"the teacher file judges {teacher.words.shape[1]} reefs, not {model.n_reefs}")


def _ridge(design: sparse.csr_matrix, targets: Doubles) -> Doubles:
    """Minimise |design @ x - targets|^2 + RIDGE |x|^2 for all columns by conjugate gradients."""
    residual: Doubles = np.asarray(design.T @ targets)
    found, direction = np.zeros_like(residual), residual.copy()
    squares = (residual * residual).sum(axis=0)
    for _ in range(ITERATIONS):
        image = design.T @ (design @ direction) + RIDGE * direction
        step = squares / np.maximum((direction * image).sum(axis=0), np.finfo(np.float64).tiny)
        found += step * direction
        residual -= step * image
        before, squares = squares, (residual * residual).sum(axis=0)
        direction = residual + squares / np.maximum(before, np.finfo(np.float64).tiny) * direction
    return found


def with_trust(model: Model, path: Path = TRUST) -> Model:
    """The model with the trust of a file: its table `readers` has what the logit of a reef is raised by, its
    table `silent` the reefs that are never labels, with the reason.

    Raises ValueError if it names a reef that the model does not have."""
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    raised: dict[str, float] = declared["readers"] | dict.fromkeys(declared["silent"], NEVER)
    names = [reef.name for reef in model.hierarchy.reefs]
    unknown = sorted(set(raised) - set(names))
    if unknown:
        raise ValueError(f"{path.name} names reefs that do not exist: {', '.join(unknown)}")
    return replace(model, reef_trust=np.array([raised.get(name, 0.0) for name in names]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lagoon.build.senses", description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("teach", "fit"))
    parser.add_argument("--running-text", type=Path, nargs="+", required=True, help="as for lagoon.build")
    parser.add_argument("--teacher", type=Path, default=TEACHER, help="judgements; default %(default)s")
    parser.add_argument("--data", type=Path, default=DATA, help="data of the scorer; default %(default)s")
    parser.add_argument("--output", type=Path, help="folder for the new data; default: that of --data")
    parser.add_argument("--passages", type=int, default=20_000, help="passages to draw; default %(default)s")
    parser.add_argument(
        "--except", type=Path, dest="excluded", help="JSON lines; texts named by `source` are not drawn"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)7d ms  %(message)s")
    model = load_model(options.data, verify=True)
    texts = named_texts(options.running_text)
    if options.step == "teach":
        lines = options.excluded.read_text(encoding="utf-8").splitlines() if options.excluded else []
        excluded = {str(json.loads(line)["source"]).split("/", 1)[-1] for line in lines}
        write_teacher(options.teacher, teach(model, texts, excluded, options.passages))
        return
    manifest = json.loads((options.data / MANIFEST).read_text(encoding="utf-8"))
    kept = {name: manifest[name] for name in ("parameters", "sources")}
    output = options.output or options.data
    teacher = read_teacher(options.teacher)
    judged = judged_passages(model, teacher, texts)
    fitted = with_trust(with_senses(model, teacher, *judged))
    running_text = (text for _, text in named_texts(options.running_text))
    checksum = save_model(with_name_words(fitted, running_text, *judged), output, kept)
    _log.info("wrote %s, checksum %s", output, checksum)


if __name__ == "__main__":
    main()
