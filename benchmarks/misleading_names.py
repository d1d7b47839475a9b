"""Labels of texts about subjects with a misleading name: a company called Apple, a judge called Bird.

usage: python -m benchmarks.misleading_names [--threshold 0.6]

`judgements/misleading_names.jsonl` has 42 companies, languages, ships, bands, teams and persons named like
things, each with two paragraphs written for this purpose and the reefs that the name alone suggests. Each is
a document of one library. Prints the share of passages that have such a reef as a label, in all and by name.
No constant was chosen on these texts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from shoal import Engine
from shoal.settings import Settings

NAMES = Path(__file__).parent / "judgements" / "misleading_names.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threshold", type=float, default=Settings().label_threshold)
    options = parser.parse_args()
    subjects = [json.loads(line) for line in NAMES.read_text(encoding="utf-8").splitlines()]
    misled: dict[str, int] = {}
    n_passages = n_labels = 0
    settings = Settings(label_threshold=options.threshold)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Engine(db_path=Path(scratch) / "names.db", settings=settings) as engine,
    ):
        for subject in subjects:
            content = "\n\n".join((f"# {subject['name']}", *subject["paragraphs"]))
            engine.ingest(content=content, source_path=f"{subject['name']}.md")
        for document in engine.documents.list(limit=len(subjects)).documents:
            subject = next(each for each in subjects if document.source_path == f"{each['name']}.md")
            for chunk in engine.documents.chunks(document.id).chunks:
                shown = {label.reef_name for label in chunk.labels}
                n_passages += 1
                n_labels += len(shown)
                misled[subject["name"]] = misled.get(subject["name"], 0) + bool(
                    shown & set(subject["misleading"])
                )
    n_misled = sum(misled.values())
    print(f"{len(subjects)} subjects, {n_passages} passages, {n_labels / n_passages:.2f} labels a passage")
    print(f"with a misleading label: {n_misled} passages, {n_misled / n_passages:.0%}")
    print("  " + ", ".join(f"{name} {n}" for name, n in misled.items() if n))


if __name__ == "__main__":
    main()
