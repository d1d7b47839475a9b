"""Why a note is a result: the reasons that can be shown, the surest first, as for passages
(`shoal.search.why`): names and codes of the query, its other words, and topics of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from shoal.models.notes import Note
from shoal.models.scores import Reason, ReasonKind
from shoal.notes.note_query import NoteQuery
from shoal.search.matched_terms import Occurrence, TextWords
from shoal.search.why import MOST_TOPICS, MOST_WORDS, reason_probability

LEADS = {ReasonKind.name: "names", ReasonKind.code: "has", ReasonKind.word: "holds"}
NOTHING = Reason(ReasonKind.background, "holds no word of the query, and shares no clear topic with it")


def note_reasons(query: NoteQuery, notes: Sequence[Note], label_threshold: float) -> list[tuple[Reason, ...]]:
    """Return why each of some notes matches a query, at least one reason each."""
    texts = [f"{note.title}\n{note.text}" if note.title else note.text for note in notes]
    found = TextWords(texts).find([term.term for term in query.terms])
    return [
        (*_by_words(query, text, words), *_by_topics(query, note, label_threshold)) or (NOTHING,)
        for note, text, words in zip(notes, texts, found, strict=True)
    ]


def _by_words(query: NoteQuery, text: str, found: Mapping[str, Sequence[Occurrence]]) -> list[Reason]:
    items: defaultdict[ReasonKind, dict[str, str]] = defaultdict(dict)
    for term in query.terms:
        places = found.get(term.term, ())
        if not places:
            continue
        place = next((each for each in places if each.form == term.word), places[0])
        written = text[place.start : place.end]
        if any(map(str.isdigit, written)):
            kind = ReasonKind.code
        elif term.word in query.names and place.form == term.word and written[0].isupper():
            kind = ReasonKind.name
        else:
            kind = ReasonKind.word
        items[kind].setdefault(place.form, written)
    return [
        Reason(kind, lead, tuple(items[kind].values())[:MOST_WORDS])
        for kind, lead in LEADS.items()
        if items[kind]
    ]


def _by_topics(query: NoteQuery, note: Note, label_threshold: float) -> list[Reason]:
    reef_ids = () if query.profile is None else {reef.reef_id for reef in query.profile.reefs}
    labels = [label for label in note.labels if label.reef_id in reef_ids]
    # The probabilities of the query take more time than the search of its words.
    asked = query.probabilities if labels else {}
    chances = {
        label.reef_name: reason_probability(label.probability, asked.get(label.reef_id, 0.0))
        for label in labels
    }
    topics = sorted(chances, key=lambda name: (-chances[name], name))
    known = tuple(name for name in topics if chances[name] >= label_threshold)[:MOST_TOPICS]
    return [Reason(ReasonKind.topic, "about", known)] if known else []
