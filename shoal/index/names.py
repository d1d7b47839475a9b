"""The words of names: of titles, headings and file names.

Marks stand around each name, so that the phrase of the marks and all of its words is the whole name. The
words of the path of a document are searched with its title, and count nothing in its length.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.index.building import FIRST, LAST, NO_WORDS, SAME, UNCOUNTED, Words
from shoal.words.analysis import analyze_texts

MAX_PATH_CHARS = 500
"""Characters of a path whose words are searched, from its end."""
_SEPARATORS = re.compile(r"[/\\]+")
_SUFFIX = re.compile(r"\.\w{1,8}\Z")


class NameTexts(NamedTuple):
    """names: texts that are names; also: further names, and others: texts that are none, whose words count
    nothing in the length of the unit."""

    names: Sequence[str]
    also: Sequence[str] = ()
    others: Sequence[str] = ()


def name_texts(title: str, source_path: str | None) -> NameTexts:
    """Return the names of a document: its title and the name of its file; and the rest of its path."""
    # Without the scheme of an address.
    path = (source_path or "").split("://", 1)[-1][-MAX_PATH_CHARS:]
    *folders, name = _SEPARATORS.split(path.rstrip("/\\"))
    stem = _SUFFIX.sub("", name)
    also = [stem] if stem and stem.casefold() != title.casefold() else []
    others = [*folders, name] if stem != name else folders
    return NameTexts([title], also, [other for other in others if other])


def name_words(units: Sequence[NameTexts]) -> list[Words]:
    """Return the words of each unit."""
    texts = [text for unit in units for text in itertools.chain(*unit)]
    if not texts:
        return [NO_WORDS for _ in units]
    stream, starts = analyze_texts(texts)
    forms = [*stream.forms, FIRST, LAST]
    first, last = np.array([len(forms) - 2], dtype=np.int32), np.array([len(forms) - 1], dtype=np.int32)
    mark = np.array([UNCOUNTED], dtype=np.uint8)
    counted = stream.advances.astype(np.uint8)
    uncounted = np.where(stream.advances, UNCOUNTED, SAME).astype(np.uint8)
    bounds = itertools.pairwise(starts.tolist())
    words = []
    for names, also, others in units:
        ids, steps = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.uint8)]
        for of_unit, advances in ((names, counted), (also, uncounted)):
            for start, end in itertools.islice(bounds, len(of_unit)):
                ids += [first, stream.ids[start:end], last]
                steps += [mark, advances[start:end], mark]
        for start, end in itertools.islice(bounds, len(others)):
            ids.append(stream.ids[start:end])
            steps.append(uncounted[start:end])
        all_ids = np.concatenate(ids)
        # Names have capitals for their place.
        no_capitals = np.zeros(len(all_ids), dtype=np.bool_)
        words.append(Words(forms, all_ids, np.concatenate(steps), np.array([0, len(all_ids)]), no_capitals))
    return words
