"""A scripted day of coding agents: what they are shown, and what their notes become.

usage: python -m benchmarks.agent_day

Twenty sessions work in five environments, which are folders with the files that `detect` reads: a shop's
frontend and backend, and the infrastructure of the same company; a command line tool; notebooks. A session is
shown the notes pinned for it and those found for ten prompts, judges each of them, and adds the ten lessons
that it learned. All of this goes through `engine.notes.of(owner)`.

The lessons and their labels are in `judgements/agent_lessons.jsonl`, which `judgements/README.md` describes.
A judgement says what the label says: whether the lesson applies in the environment of the session. Prompts
name no environment and no tool, so only environments and judgements can tell the lessons of one topic apart.

Prints how many of the shown notes applied in the first and in the last five sessions, and for comparison in
the last ones without an environment; then the pins, filters and warnings of similar notes against the labels.
At the end, proposals to merge are decided by the labels.
The day runs twice. Exits 1 if the states differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import Engine
from shoal.notes.environment import Environment, detect
from shoal.notes.notes import OwnerNotes
from shoal.notes.relevance import is_filtered, relevance_in
from shoal.settings import Settings

LESSONS = Path(__file__).with_name("judgements") / "agent_lessons.jsonl"
OWNER = "team"
FRONTEND, BACKEND, CLI = "frontend", "backend", "cli"
NOTEBOOKS, INFRASTRUCTURE = "notebooks", "infrastructure"
SESSIONS = (
    FRONTEND, BACKEND, CLI, NOTEBOOKS, INFRASTRUCTURE,
    FRONTEND, BACKEND, CLI, FRONTEND, BACKEND, NOTEBOOKS, INFRASTRUCTURE, FRONTEND, BACKEND, FRONTEND,
    CLI, NOTEBOOKS, INFRASTRUCTURE, BACKEND, FRONTEND,
)  # fmt: skip
LESSONS_PER_SESSION = 10
COMPARED = 5
"""Sessions at the start and at the end whose precision is reported: one of each environment."""
TOP_K = 3

PROMPTS = {
    "tests": (
        "Run the tests and find out why one of them fails.",
        "Write a test for the new function and start it.",
    ),
    "dependencies": (
        "Add a new library as a dependency and update the lock file.",
        "Upgrade a package whose version is pinned.",
    ),
    "style": (
        "Clean up the code: names, types, and where functions belong.",
        "What is our style for new code?",
    ),
    "errors": (
        "Something crashed with an error message; find the cause.",
        "Requests fail with a timeout; handle the failure.",
    ),
    "secrets": (
        "Where do passwords, keys and other secrets belong?",
        "Check that no credentials or names of customers leak.",
    ),
    "releases": (
        "Release the new version to production.",
        "Roll out the change, and roll back if it fails.",
    ),
    "data": (
        "Change how the data is stored and read.",
        "Prices and times look wrong; check how amounts and dates are stored.",
    ),
    "speed": (
        "It is too slow; make it faster.",
        "Memory and latency have grown; find out what loads too much.",
    ),
    "commits": (
        "Commit the change and open a pull request.",
        "Write the commit message and the title of the pull request.",
    ),
    "setup": (
        "Set up the project on a new machine and start it.",
        "Which services and versions are needed before the first start?",
    ),
}
"""By topic; sessions of an environment take turns."""

FOLDERS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    FRONTEND: (
        "work/acme/shop",
        "git@github.com:acme/shop.git",
        {
            "package.json": json.dumps(
                {
                    "dependencies": {"next": "15", "react": "19.0.0", "tailwindcss": "4"},
                    "devDependencies": {"vitest": "3", "@playwright/test": "1"},
                }
            ),
            "pnpm-lock.yaml": "",
            "tsconfig.json": "{}",
            "next.config.ts": "",
        },
    ),
    BACKEND: (
        "work/acme/orders",
        "git@github.com:acme/orders.git",
        {
            "manage.py": "",
            "requirements.txt": "django==5.1\ncelery==5.4\npsycopg==3.2\nredis==5.2\n",
            "docker-compose.yml": "",
            "pytest.ini": "",
        },
    ),
    INFRASTRUCTURE: (
        "work/acme/platform",
        "git@github.com:acme/platform.git",
        {"main.tf": "", "charts/api/Chart.yaml": "", ".github/workflows/apply.yml": ""},
    ),
    CLI: (
        "personal/tool",
        "git@codeberg.org:example/tool.git",
        {"Cargo.toml": '[dependencies]\nclap = "4"\ntokio = "1"\nserde = "1"\n'},
    ),
    NOTEBOOKS: (
        "personal/clicks",
        "git@gitlab.com:example/clicks.git",
        {
            "pyproject.toml": '[project]\ndependencies = ["pandas", "polars", "matplotlib"]\n',
            "uv.lock": "",
            "notebooks/visits.ipynb": "{}",
        },
    ),
}
"""Of each environment: folder, remote, and files with their text."""


@dataclass(frozen=True, slots=True)
class LabelledLesson:
    """A labelled lesson; `judgements/README.md` describes the fields."""

    id: str
    learned_in: str
    applies: tuple[str, ...]
    topic: str
    text: str
    says_again: str = ""
    contradicts: str = ""
    pin: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A note that a session was shown for a prompt, or at its start (no topic)."""

    session: int
    environment: str
    topic: str
    lesson: LabelledLesson


def read_lessons() -> dict[str, LabelledLesson]:
    """Read the lessons, in the order in which each environment learns them."""
    lessons: dict[str, LabelledLesson] = {}
    for line in LESSONS.read_text(encoding="utf-8").splitlines():
        fields = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in json.loads(line).items()
        }
        lessons[fields["id"]] = LabelledLesson(**fields)
    return lessons


def make_environments(home: Path) -> dict[str, Environment]:
    """Write the folders and detect their environments."""
    found = {}
    for name, (path, remote, files) in FOLDERS.items():
        folder = home / path
        config = f'[remote "origin"]\n\turl = {remote}\n'
        for file_name, text in {
            **files,
            ".git/config": config,
            ".git/HEAD": "ref: refs/heads/main\n",
        }.items():
            (folder / file_name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file_name).write_text(text, encoding="utf-8")
        found[name] = detect(folder)
    return found


@dataclass(frozen=True, slots=True)
class Proposal:
    """Lessons that were proposed for a merge, and whether the labels confirmed it."""

    lesson_ids: frozenset[str]
    is_right: bool


class Day:
    """A day of one owner's notes.

    shown      what sessions were shown
    unaided    what the last sessions would have been shown without an environment
    note_ids   of each lesson that was learned
    warnings   lessons that `add` called similar to a lesson, with whether they may be opposite
    proposals  notes that deduplication proposed to merge
    """

    def __init__(
        self,
        notes: OwnerNotes,
        lessons: Mapping[str, LabelledLesson],
        environments: Mapping[str, Environment],
    ) -> None:
        self.notes = notes
        self.lessons = lessons
        self.environments = environments
        self.shown: list[Shown] = []
        self.unaided: list[Shown] = []
        self.note_ids: dict[str, int] = {}
        self.warnings: dict[str, list[tuple[str, bool]]] = {}
        self.proposals: list[Proposal] = []
        self._by_note: dict[int, LabelledLesson] = {}

    def live(self) -> None:
        """Run the sessions."""
        of_environment = {
            name: iter([lesson for lesson in self.lessons.values() if lesson.learned_in == name])
            for name in self.environments
        }
        visits: Counter[str] = Counter()
        for number, name in enumerate(SESSIONS, 1):
            session = Session(self, number, name, wording=visits[name] % 2)
            visits[name] += 1
            session.work()
            for lesson in itertools.islice(of_environment[name], LESSONS_PER_SESSION):
                session.learn(lesson)

    def decide_proposals(self) -> None:
        """Look for duplicates until nothing is proposed; accept proposals that the labels confirm."""
        self.notes.dedup()
        while proposals := self.notes.proposals(limit=1).proposals:
            [proposal] = proposals
            lessons = [self.lesson_of(note.id) for note in proposal.notes]
            is_right = len({lesson.says_again or lesson.id for lesson in lessons}) == 1
            text = proposal.notes[0].text if is_right else None
            self.notes.decide(proposal.id, is_right, canonical_text=text)
            self.proposals.append(Proposal(frozenset(lesson.id for lesson in lessons), is_right))
            # A merged note is compared with the others again.
            self.notes.dedup()

    def lesson_of(self, note_id: int) -> LabelledLesson:
        return self._by_note[note_id]

    def learned(self, lesson: LabelledLesson, note_id: int) -> None:
        self.note_ids[lesson.id] = note_id
        self._by_note[note_id] = lesson

    def state(self) -> list[Any]:
        """Everything that is stored, without times."""
        page = self.notes.list(include_deprecated=True, limit=500)
        assert page.total == len(page.notes), "one page"
        pinned = {
            name: [note.id for note in self.notes.pinned(where)] for name, where in self.environments.items()
        }
        return [
            *(_without_times(dataclasses.asdict(note)) for note in page.notes),
            *([each._replace(created_at="") for each in self.notes.history(note.id)] for note in page.notes),
            *(
                [each._replace(created_at="") for each in self.notes.feedbacks(note.id)]
                for note in page.notes
            ),
            pinned,
            self.notes.status(),
            self.shown,
            self.unaided,
            self.warnings,
            self.proposals,
        ]


class Session:
    """One session of a day, in one environment."""

    def __init__(self, day: Day, number: int, name: str, *, wording: int) -> None:
        self.day = day
        self.number = number
        self.name = name
        self.id = f"session-{number:02}"
        self.where = day.environments[name]
        self.prompts = {topic: both[wording] for topic, both in PROMPTS.items()}

    def work(self) -> None:
        """Be shown notes, and judge each at the end."""
        notes, shown = self.day.notes, list(self._see_notes())
        for each, note_id in shown:
            is_applicable = self.name in each.lesson.applies
            notes.feedback(note_id, applicable=is_applicable, session_id=self.id, environment=self.where)
        self.day.shown += [each for each, _ in shown]

    def learn(self, lesson: LabelledLesson) -> None:
        """Add a lesson, as an extraction does, and pin it if a person would."""
        day = self.day
        added = day.notes.add(lesson.text, tags=self.where.tags, source="extraction", session_id=self.id)
        day.warnings[lesson.id] = [
            (day.lesson_of(similar.id).id, similar.is_opposite) for similar in added.similar
        ]
        day.learned(lesson, added.note.id)
        if lesson.pin is not None:
            day.notes.pin(added.note.id, tags=lesson.pin)

    def _see_notes(self) -> Iterator[tuple[Shown, int]]:
        notes, is_last = self.day.notes, self.number > len(SESSIONS) - COMPARED
        pinned = [note.id for note in notes.pinned(self.where)]
        yield from self._record("session-start", "", pinned)
        for topic, prompt in self.prompts.items():
            found = notes.search(prompt, top_k=TOP_K, environment=self.where, session_id=self.id)
            yield from self._record("prompt", topic, [result.note.id for result in found.results])
            if is_last:
                found = notes.search(prompt, top_k=TOP_K)
                self.day.unaided += [self._shown(topic, result.note.id) for result in found.results]

    def _record(self, event: str, topic: str, note_ids: Sequence[int]) -> Iterator[tuple[Shown, int]]:
        if note_ids:
            self.day.notes.record_shown(
                self.id, note_ids, event=event, environment=self.where, context=self.prompts.get(topic, "")
            )
        for note_id in note_ids:
            yield self._shown(topic, note_id), note_id

    def _shown(self, topic: str, note_id: int) -> Shown:
        return Shown(self.number, self.name, topic, self.day.lesson_of(note_id))


def _without_times(fields: dict[str, Any]) -> dict[str, Any]:
    times = ("created_at", "updated_at", "last_matched", "deprecated_at")
    return {name: value for name, value in fields.items() if name not in times}


# Figures


def report(day: Day, settings: Settings) -> None:
    """Print the figures of a day."""
    last = len(SESSIONS) - COMPARED
    print(
        f"{len(day.note_ids)} lessons from {len(SESSIONS)} sessions in {len(day.environments)} environments"
    )
    print(f"notes that were shown and judged: {len(day.shown)}")
    report_precision("first sessions", [each for each in day.shown if each.session <= COMPARED])
    report_precision("last sessions", [each for each in day.shown if each.session > last])
    report_precision("last sessions without environment", day.unaided)
    report_pins(day, settings)
    report_filters(day, settings)
    report_similar(day)


def report_precision(name: str, shown: Sequence[Shown]) -> None:
    """Print how many notes applied, of those found for prompts and of those pinned."""
    found, pinned = [each for each in shown if each.topic], [each for each in shown if not each.topic]
    of_topic = sum(each.topic == each.lesson.topic for each in found)
    print(f"{name}: found notes that apply {share(map(applies, found))}, of the prompt's topic {of_topic}")
    if pinned:
        print(f"{name}: pinned notes that apply {share(map(applies, pinned))}")


def applies(shown: Shown) -> bool:
    return shown.environment in shown.lesson.applies


def report_pins(day: Day, settings: Settings) -> None:
    """Compare the pins that judgements and matches made with the labels."""
    automatic = {
        (day.lesson_of(note.id), name, str(note.pinned_by))
        for name, where in day.environments.items()
        for note in day.notes.pinned(where)
        if note.pinned_by != "person"
    }
    for by in ("relevance", "tags"):
        own = [name in lesson.applies for lesson, name, pinned_by in automatic if pinned_by == by]
        print(f"pins by {by}, for each environment where they count: that apply {share(own)}")
    judged = Counter((each.lesson, each.environment) for each in day.shown)
    due = [
        pair for pair, n in judged.items() if n >= settings.note_pin_min_evals and pair[1] in pair[0].applies
    ]
    pinned = {(lesson, name) for lesson, name, _ in automatic} | {
        (day.lesson_of(note.id), name)
        for name, where in day.environments.items()
        for note in day.notes.pinned(where)
    }
    print(
        f"judged applicable {settings.note_pin_min_evals} times somewhere: pinned there "
        f"{share(pair in pinned for pair in due)}"
    )
    by_person = [lesson for lesson in day.lessons.values() if lesson.pin is not None]
    kept = (day.notes.get(day.note_ids[lesson.id]) for lesson in by_person)
    print(f"pins of a person: kept {share(note.pinned_by == 'person' for note in kept)}")


def report_filters(day: Day, settings: Settings) -> None:
    """Compare what is left out in each environment with the labels."""
    judged = Counter((each.lesson.id, each.environment) for each in day.shown)
    left_out, due = [], []
    for lesson, (name, where) in itertools.product(day.lessons.values(), day.environments.items()):
        relevance = day.notes.get(day.note_ids[lesson.id]).tag_relevance
        is_out = is_filtered(relevance_in(relevance, where.tags), settings)
        if is_out:
            left_out.append(name not in lesson.applies)
        if name not in lesson.applies and judged[lesson.id, name] >= settings.note_filter_min_evals:
            due.append(is_out)
    print(f"left out, by note and environment: rightly {share(left_out)}")
    print(
        f"judged not applicable {settings.note_filter_min_evals} times somewhere: left out there {share(due)}"
    )


def report_similar(day: Day) -> None:
    """Compare the warnings of similar notes with the labels, whichever lesson of a pair came first."""
    lessons = day.lessons.values()
    again = {frozenset((each.id, each.says_again)) for each in lessons if each.says_again}
    contrary = {frozenset((each.id, each.contradicts)) for each in lessons if each.contradicts}
    warned = {
        frozenset((lesson_id, other)): is_opposite
        for lesson_id, others in day.warnings.items()
        for other, is_opposite in others
    }
    same = {pair for pair, is_opposite in warned.items() if not is_opposite}
    print(f"warnings of the same lesson that are right: {share(pair in again for pair in same)}")
    print(f"the same lesson in other words: warned of {share(pair in same for pair in again)}")
    print(
        f"opposites: warned of as the same {share(pair in same for pair in contrary)}, "
        f"as opposite {share(warned.get(pair, False) for pair in contrary)}"
    )


def report_merges(day: Day) -> None:
    """Compare proposals, decided by the labels, and merges with the labels."""
    again = [(each.id, each.says_again) for each in day.lessons.values() if each.says_again]
    contrary = [(each.id, each.contradicts) for each in day.lessons.values() if each.contradicts]

    def survivor(lesson_id: str) -> int:
        note = day.notes.get(day.note_ids[lesson_id])
        return note.merged_into or note.id

    print(f"proposals to merge that are right: {share(each.is_right for each in day.proposals)}")
    print(f"the same lesson in other words: merged {share(survivor(a) == survivor(b) for a, b in again)}")
    print(f"opposites: merged {share(survivor(a) == survivor(b) for a, b in contrary)}")
    print(f"active notes: {day.notes.status().n_active}")


def share(values: Iterable[bool]) -> str:
    """Write a share of true values with their numbers."""
    known = list(values)
    return f"{sum(known)} of {len(known)}" + (f" ({sum(known) / len(known):.3f})" if known else "")


def run(*, is_reported: bool) -> list[Any]:
    """Live one day in new folders; return its state."""
    with tempfile.TemporaryDirectory() as scratch, Engine(Path(scratch) / "shoal.db") as engine:
        day = Day(engine.notes.of(OWNER), read_lessons(), make_environments(Path(scratch) / "home"))
        day.live()
        if is_reported:
            report(day, engine.settings)
        day.decide_proposals()
        if is_reported:
            report_merges(day)
        return day.state()


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    first, second = run(is_reported=True), run(is_reported=False)
    is_equal = first == second
    print(f"states of two days equal: {is_equal}, {len(first)} values")
    return int(not is_equal)


if __name__ == "__main__":
    raise SystemExit(main())
