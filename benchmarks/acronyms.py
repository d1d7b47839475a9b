"""Precision and recall of the acronyms found in texts: `python benchmarks/acronyms.py CORPUS.jsonl.gz`.

`acronym_verdicts.json` has a person's verdicts on two samples of the 1,000 vital articles of Wikipedia, as
ids of documents and offsets. `found`: 100 definitions that the algorithm found; `right`, or `wide` if the
expansion has a word too many. `others`: 80 brackets with the look of a definition that it had not found;
`definition`, `foreign` (the letters are those of the name in another language) or `none`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from pathlib import Path

from shoal.learning.acronyms import find_definitions, is_short_form

VERDICTS = Path(__file__).with_name("acronym_verdicts.json")
BRACKETS = re.compile(r"\(([^()]{2,60})\)")


def looks_like_definition(text: str, brackets: re.Match[str]) -> bool:
    """Whether an acronym is alone in brackets, or before brackets with several words."""
    inside = re.split("[;,]", brackets[1])[0].strip(" '\"“”")
    before = text[max(0, brackets.start() - 12) : brackets.start()].split()
    is_gloss = len(brackets[1].split()) > 1 and before and is_short_form(before[-1])
    return is_short_form(inside) or bool(is_gloss)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the acronyms found in texts.")
    parser.add_argument("corpus", type=Path, help="lines of JSON with _id and text, compressed by gzip")
    verdicts = json.loads(VERDICTS.read_text())
    n_chars = n_found = n_others = 0
    seconds = 0.0
    kept: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    with gzip.open(parser.parse_args().corpus, "rt") as lines:
        for line in lines:
            document = json.loads(line)
            text = document["text"]
            started = time.process_time()
            found = find_definitions(text)
            seconds += time.process_time() - started
            n_chars += len(text)
            n_found += len(found)
            ends = {each.end for each in found}
            acronyms = {each.acronym for each in found}
            places = [each for each in BRACKETS.finditer(text) if looks_like_definition(text, each)]
            n_others += sum(
                each.end() not in ends and re.split("[;,]", each[1])[0].strip() not in acronyms
                for each in places
            )
            end_of = {each.start(): each.end() for each in places}
            for document_id, _, end, verdict in verdicts["found"]:
                if document_id == document["_id"] and end in ends:
                    kept[verdict] += 1
            for document_id, start, verdict in verdicts["others"]:
                if document_id == document["_id"] and end_of.get(start) in ends:
                    caught[verdict] += 1
    judged, other = (
        Counter(row[-1] for row in verdicts["found"]),
        Counter(row[-1] for row in verdicts["others"]),
    )
    print(
        f"{n_found:,} definitions in {n_chars:,} characters, {n_chars / seconds / 1e6:.1f} million a second"
    )
    print(f"of {judged.total()} judged: {dict(judged)}; still found: {dict(kept)}")
    print(f"{n_others:,} other brackets; of {other.total()} judged: {dict(other)}; found now: {dict(caught)}")
    left = other["definition"] - caught["definition"]
    missed = n_others * left / (other.total() - caught.total())
    print(f"recall, without those of other languages: {n_found / (n_found + missed):.0%}")


if __name__ == "__main__":
    main()
