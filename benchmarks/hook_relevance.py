"""How many of the notes that hooks show are wanted, by the least similarity (`SHOAL_HOOK_MIN_SIMILARITY`).

usage: python -m benchmarks.hook_relevance [--encoder NAME]

The 12 notes and 23 prompts and uses of tools below were written for this, with the notes that an agent would
want for each. Prints precision and recall of the notes that are shown.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

from shoal import Engine
from shoal.notes.hook_input import tool_words
from shoal.settings import Settings

THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

NOTES = {
    "frontend": "Run the tests of the frontend with `npm run test:unit`, because `npm test` starts a browser "
    "that hangs in CI.",
    "docker": "Docker builds need BuildKit for the cache mounts; set DOCKER_BUILDKIT=1.",
    "migrate": "Database migrations run with make migrate, never by hand, because the checksum table must be "
    "updated.",
    "dates": "The API returns dates in UTC; convert them in the view only.",
    "pnpm": "Use pnpm in this repository, not npm: npm breaks the lockfile.",
    "staging": "The staging server only accepts deployments from the release branch.",
    "fixtures": "pytest fixtures in conftest.py are session scoped; do not mutate them.",
    "commits": "Write commit messages in the imperative, without a ticket number.",
    "grep": "ripgrep is not installed on the build machines; use git grep.",
    "imports": "The linter forbids relative imports beyond one level.",
    "postgres": "Postgres runs on port 5433 locally, because 5432 is taken by another project.",
    "react": "React components are tested with testing-library, not enzyme.",
}
PROMPTS = {
    "How do I run the frontend tests?": {"frontend", "react"},
    "please run the unit tests and fix what fails": {"frontend", "fixtures"},
    "add a new column to the users table with a migration": {"migrate"},
    "deploy the current version to staging": {"staging"},
    "connect to the local postgres database": {"postgres"},
    "install the lodash package": {"pnpm"},
    "build the docker image for the worker": {"docker"},
    "commit this": {"commits"},
    "The login form does not validate the email address when the user presses enter; find out why and fix "
    "it, and add a test for the component.": {"react"},
    "yes": set(),
    "ok, continue please": set(),
    "write a haiku about the sea": set(),
    "rename the variable foo to bar in utils": set(),
    "explain how garbage collection works": set(),
}
TOOLS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("Bash", {"command": "npm install lodash"}, {"pnpm"}),
    ("Bash", {"command": "docker build -t worker ."}, {"docker"}),
    ("Edit", {"file_path": "/web/src/components/Button.test.tsx", "old_string": "x"}, {"react"}),
    ("Bash", {"command": "rg -n TODO src"}, {"grep"}),
    ("Bash", {"command": "git commit -m 'fix'"}, {"commits"}),
    ("Bash", {"command": "psql -p 5432 app"}, {"postgres"}),
    ("Bash", {"command": "pytest tests/test_x.py -q"}, {"fixtures"}),
    ("Bash", {"command": "ls -la src"}, set()),
    ("Write", {"file_path": "/web/README.md", "content": "..."}, set()),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="disabled", help="as in SHOAL_ENCODER")
    encoder = parser.parse_args().encoder
    wanted = {**PROMPTS, **{" ".join(tool_words(name, given)): labels for name, given, labels in TOOLS}}
    shown: list[tuple[float, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/notes.db", encoder=encoder)
        with Engine(settings=settings) as engine:
            notes = engine.notes.of("default")
            names = {notes.add(text).note.id: name for name, text in NOTES.items()}
            engine.notes.embed()
            for query, labels in wanted.items():
                results = notes.search(query, top_k=engine.settings.hook_notes).results
                shown += [(result.similarity, names[result.note.id] in labels) for result in results]
    n_wanted = sum(map(len, wanted.values()))
    print(f"{len(NOTES)} notes, {len(wanted)} prompts and uses of tools, {n_wanted} wanted notes")
    for threshold in THRESHOLDS:
        kept = [is_wanted for similarity, is_wanted in shown if similarity >= threshold]
        default = "   the default" if threshold == Settings().hook_min_similarity else ""
        print(
            f"least similarity {threshold:4.2f}: {len(kept):2} shown, precision {sum(kept) / len(kept):.2f}, "
            f"recall {sum(kept) / n_wanted:.2f}{default}"
        )


if __name__ == "__main__":
    main()
