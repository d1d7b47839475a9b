"""The account of a converted file."""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType

from shoal.conversion.accounts.words import FilePart, missing_words, shortage, words_of
from shoal.models.files import FileAccount, MissingPart, Removed

_HERE = "shoal.conversion.accounts."
COUNTERS = MappingProxyType(
    {
        "docx": _HERE + "archives:docx_parts",
        "pptx": _HERE + "archives:pptx_parts",
        "xlsx": _HERE + "archives:xlsx_parts",
        "opendocument": _HERE + "archives:opendocument_parts",
        "epub": _HERE + "archives:epub_parts",
        "html": _HERE + "mail:html_parts",
        "mhtml": _HERE + "mail:mhtml_parts",
        "eml": _HERE + "mail:eml_parts",
        "mbox": _HERE + "mail:mbox_parts",
        "rtf": _HERE + "rich_text:rtf_parts",
        "pdf": _HERE + "pdf:pdf_parts",
    }
)
"""The function that yields the parts of a file, by kind. Files of other kinds have no account."""
MAX_PARTS = 50
"""Of an account; the words of further parts are in one."""
_SAMPLE_WORDS = 12
_SAMPLE_CHARS = 80


def file_account(
    kind: str,
    data: bytes,
    content: str,
    removed: Sequence[Removed],
    *,
    title: str = "",
    counter: object = None,
    deadline: float = float("inf"),
) -> FileAccount | None:
    """Return what of a file is in its document; None if it cannot be counted, or not before the deadline.

    `removed`: texts that the converter left out on purpose, in full. `counter`: as of
    `Converted`. `deadline`: of `time.monotonic`.
    """
    if kind not in COUNTERS:
        return None
    parts: list[FilePart] = []
    for part in parts_of(kind, data, counter):
        parts.append(part)
        if time.monotonic() > deadline:
            return None
    return compared(parts, f"{title}\n{content}", removed)


def parts_of(kind: str, data: bytes, counter: object = None) -> Iterator[FilePart]:
    """Yield the parts of a file with visible words. Raises errors of many kinds for a damaged one."""
    module, _, function = COUNTERS[kind].partition(":")
    count: Callable[..., Iterator[FilePart]] = getattr(importlib.import_module(module), function)
    yield from count(data) if counter is None else count(data, counter)


def compared(parts: Sequence[FilePart], content: str, removed: Sequence[Removed]) -> FileAccount:
    """Return the account of the parts of a file against its content."""
    present = Counter(words_of(content))
    reasons: dict[str, Counter[str]] = {}
    for entry in removed:
        counts = reasons.setdefault(entry.reason, Counter())
        for word in words_of(entry.text):
            counts[word] += entry.times
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.words)
        total.update(part.counts)
    explained = sum(reasons.values(), Counter(present)) if reasons else present
    unexplained = missing_words(parts, total, explained)
    absent = shortage(total, present) - unexplained
    missing = [*_by_reason(reasons, removed, absent), *_by_part(parts, unexplained)]
    missing += _numbers(parts, total, present)
    missing += (MissingPart(part.kind, part.place, 0, part.n_bytes) for part in parts if not part.n_words)
    n_words = sum(part.n_words for part in parts)
    return FileAccount(n_words, n_words - sum(part.n_words for part in missing), _listed(missing))


def _by_reason(
    reasons: dict[str, Counter[str]], removed: Iterable[Removed], absent: Counter[str]
) -> Iterator[MissingPart]:
    """Yield what the converter left out on purpose, as far as its words are absent."""
    samples = {entry.reason: entry.text for entry in reversed(list(removed))}
    rest = Counter(absent)
    for reason, counts in reasons.items():
        taken = counts & rest
        rest -= taken
        if taken:
            text = " ".join(samples[reason][: 4 * _SAMPLE_CHARS].split())[:_SAMPLE_CHARS]
            yield MissingPart(reason, "", taken.total(), 0, True, text)


def _by_part(parts: Sequence[FilePart], missing: Counter[str]) -> Iterator[MissingPart]:
    """Yield the parts that lack words, those with the largest missing share first."""
    if not missing:
        return
    shares = []
    for at, part in enumerate(parts):
        if not missing.keys().isdisjoint(part.words) or not missing.keys().isdisjoint(part.counts):
            shares.append((-(part.counted() & missing).total() / part.n_words, at))
    rest = Counter(missing)
    for _, at in sorted(shares):
        part = parts[at]
        taken = part.counted() & rest
        if taken:
            rest -= taken
            yield MissingPart(part.kind, part.place, taken.total(), 0, False, _sample(part, taken))


def _sample(part: FilePart, taken: Counter[str]) -> str:
    """Return the beginning of the longest run of missing words."""
    best = (0, 0)
    start = at = 0
    for at, word in enumerate([*part.words, ""]):
        if word not in taken:
            if at - start > best[1] - best[0]:
                best = start, at
            start = at + 1
    sample = part.words[best[0] : best[1]][:_SAMPLE_WORDS] or list(taken)[:_SAMPLE_WORDS]
    return " ".join(sample)[:_SAMPLE_CHARS]


def _numbers(parts: Sequence[FilePart], words: Counter[str], present: Counter[str]) -> Iterator[MissingPart]:
    """Yield the numbers that the document lacks, as those of the last parts that have numbers."""
    total = sum(part.n_numbers for part in parts)
    if not total:
        return
    n_present = sum(n for word, n in shortage(present, words).items() if not word.isalpha())
    lost = total - n_present
    for part in reversed(parts):
        if lost > 0 and part.n_numbers:
            n = min(lost, part.n_numbers)
            lost -= n
            yield MissingPart(part.kind, part.place, n, 0, False, "numbers")


def _listed(missing: Sequence[MissingPart]) -> tuple[MissingPart, ...]:
    """Return the largest parts, those of one kind and place as one, and the rest as one of each sort."""
    ranked = sorted(missing, key=lambda part: (part.is_intended, -part.n_words, -part.n_bytes))
    rest = ranked[MAX_PARTS:]
    for is_intended in (False, True):
        others = [part for part in rest if part.is_intended == is_intended]
        if others:
            n_words, n_bytes = sum(p.n_words for p in others), sum(p.n_bytes for p in others)
            place = f"{len(others):,} more parts"
            ranked = [*ranked[:MAX_PARTS], MissingPart("other", place, n_words, n_bytes, is_intended)]
    return tuple(ranked[: MAX_PARTS + 2])
