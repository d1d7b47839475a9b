"""Pins in a search: documents and passages that people put first for a query, or hid from its results.

A pin is for the words of a query, without case, accents and punctuation: for exactly these (`exact`), or for
every query that has them side by side (`contains`). It moves results and changes no score. It brings back
nothing that a filter, a phrase or an excluded word keeps out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index
from shoal.models.pins import MAX_PINNED, MAX_WORDS, ListedTarget, Pin, PinMatch, PinRule, PinTarget
from shoal.models.queries import UsedPin
from shoal.search.ordering import Keys
from shoal.search.suggesting import key_of
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.document_queries import literal

COLUMNS = "id, query, match_kind, created_at, updated_at"
COUNT = "SELECT COUNT(*) FROM pins"
ANY = "SELECT EXISTS (SELECT 1 FROM pins)"
GET = f"SELECT {COLUMNS} FROM pins WHERE id = :id"
# Pins in the order of their ids; with a pattern, those whose query contains it.
LIST = f"""
    SELECT {COLUMNS} FROM pins
    WHERE (:pattern IS NULL OR query LIKE :pattern ESCAPE '!' OR words LIKE :pattern ESCAPE '!')
    ORDER BY id LIMIT :limit OFFSET :offset
"""
COUNT_LISTED = """
    SELECT COUNT(*) FROM pins
    WHERE :pattern IS NULL OR query LIKE :pattern ESCAPE '!' OR words LIKE :pattern ESCAPE '!'
"""
ID_OF = "SELECT id FROM pins WHERE words = :words AND match_kind = :match_kind"
ADD = """
    INSERT INTO pins (query, words, match_kind, created_at, updated_at)
    VALUES (:query, :words, :match_kind, :now, :now) RETURNING id
"""
CHANGE = """
    UPDATE pins SET query = :query, words = :words, match_kind = :match_kind, updated_at = :now
    WHERE id = :id
"""
DELETE = "DELETE FROM pins WHERE id = :id"
ADD_TARGET = """
    INSERT INTO pin_targets (pin_id, is_hidden, position, document_id, chunk_id)
    VALUES (:pin_id, :is_hidden, :position, :document_id, :chunk_id)
"""
DELETE_TARGETS = "DELETE FROM pin_targets WHERE pin_id = :id"
# The targets of some pins with what a person knows them by.
TARGETS = """
    SELECT t.pin_id, t.is_hidden, t.document_id, t.chunk_id, d.title, c.chunk_index
    FROM pin_targets t JOIN documents d ON d.id = t.document_id
    LEFT JOIN chunks c ON c.id = t.chunk_id AND c.document_id = t.document_id
    WHERE t.pin_id IN ({ids}) ORDER BY t.pin_id, t.is_hidden, t.position
"""
# The pins of some words: exact ones of a whole query, and those that it contains.
OF_WORDS = """
    SELECT id, query, match_kind FROM pins
    WHERE words IN ({words}) AND (match_kind = 'contains' OR words = :whole)
"""
RULE_TARGETS = """
    SELECT pin_id, is_hidden, document_id, chunk_id FROM pin_targets
    WHERE pin_id IN ({ids}) ORDER BY pin_id, is_hidden, position
"""
EXPORTED = "SELECT id, query, match_kind FROM pins ORDER BY words, match_kind"
EXPORTED_TARGETS = """
    SELECT t.is_hidden, t.chunk_id, d.content_hash, c.start_char
    FROM pin_targets t JOIN documents d ON d.id = t.document_id
    LEFT JOIN chunks c ON c.id = t.chunk_id AND c.document_id = t.document_id
    WHERE t.pin_id = :id ORDER BY t.is_hidden, t.position
"""
DOCUMENT_OF_CHUNK = "SELECT document_id FROM chunks WHERE id = :id"
HAS_DOCUMENT = "SELECT EXISTS (SELECT 1 FROM documents WHERE id = :id)"
DOCUMENT_OF_HASH = "SELECT id FROM documents WHERE content_hash = :content_hash"
CHUNK_AT = """
    SELECT id FROM chunks WHERE document_id = :document_id AND start_char <= :start_char
    ORDER BY start_char DESC LIMIT 1
"""


def any_pins(snapshot: Snapshot) -> bool:
    """Return whether the library has any."""
    return bool(snapshot.value(ANY))


def count(snapshot: Snapshot) -> int:
    """Count the pins."""
    return int(snapshot.value(COUNT))


def get(snapshot: Snapshot, pin_id: int) -> Pin | None:
    """Return a pin."""
    row = snapshot.first(GET, {"id": pin_id})
    return None if row is None else _pins(snapshot, [row])[0]


def list_page(snapshot: Snapshot, q: str | None, limit: int, offset: int) -> tuple[tuple[Pin, ...], int]:
    """Return a page of the pins, and how many there are; with `q`, those whose query contains it."""
    pattern = f"%{literal(q)}%" if q else None
    rows = snapshot.rows(LIST, {"pattern": pattern, "limit": limit, "offset": offset})
    return tuple(_pins(snapshot, rows)), int(snapshot.value(COUNT_LISTED, {"pattern": pattern}))


def id_of(snapshot: Snapshot, words: str, match: PinMatch) -> int | None:
    """Return the pin of these words."""
    row = snapshot.first(ID_OF, {"words": words, "match_kind": match.value})
    return None if row is None else int(row["id"])


def of_words(snapshot: Snapshot, whole: str, parts: Sequence[str]) -> list[PinRule]:
    """Return the pins of a query with the words `whole` and the phrases `parts`; in no order."""
    rows: list[Any] = []
    for names, parameters in listed_in_parts("word", parts):
        rows += snapshot.rows(OF_WORDS.format(words=names), {**parameters, "whole": whole})
    if not rows:
        return []
    targets: dict[tuple[int, bool], list[PinTarget]] = {}
    for ids, parameters in listed_in_parts("id", [row["id"] for row in rows]):
        for each in snapshot.rows(RULE_TARGETS.format(ids=ids), parameters):
            key = each["pin_id"], bool(each["is_hidden"])
            targets.setdefault(key, []).append(PinTarget(each["document_id"], each["chunk_id"]))
    return [
        PinRule(
            row["id"],
            row["query"],
            PinMatch(row["match_kind"]),
            tuple(targets.get((row["id"], False), ())),
            tuple(targets.get((row["id"], True), ())),
        )
        for row in rows
    ]


def add(
    transaction: Transaction,
    query: str,
    words: str,
    match: PinMatch,
    pinned: Sequence[PinTarget],
    hidden: Sequence[PinTarget],
    now: str,
) -> int:
    """Store a pin and return its id."""
    given = {"query": query, "words": words, "match_kind": match.value, "now": now}
    pin_id = int(transaction.value(ADD, given))
    _add_targets(transaction, pin_id, pinned, hidden)
    return pin_id


def change(
    transaction: Transaction,
    pin_id: int,
    query: str,
    words: str,
    match: PinMatch,
    pinned: Sequence[PinTarget],
    hidden: Sequence[PinTarget],
    now: str,
) -> None:
    """Replace a pin."""
    given = {"id": pin_id, "query": query, "words": words, "match_kind": match.value, "now": now}
    transaction.execute(CHANGE, given)
    transaction.execute(DELETE_TARGETS, {"id": pin_id})
    _add_targets(transaction, pin_id, pinned, hidden)


def delete(transaction: Transaction, pin_id: int) -> bool:
    """Delete a pin; return whether there was one."""
    return transaction.execute(DELETE, {"id": pin_id}) > 0


def document_of_chunk(snapshot: Snapshot, chunk_id: int) -> int | None:
    """Return the document of a passage; None if there is no such passage."""
    row = snapshot.first(DOCUMENT_OF_CHUNK, {"id": chunk_id})
    return None if row is None else int(row["document_id"])


def has_document(snapshot: Snapshot, document_id: int) -> bool:
    """Return whether a document is stored."""
    return bool(snapshot.value(HAS_DOCUMENT, {"id": document_id}))


def find_target(snapshot: Snapshot, content_hash: str, start_char: int | None) -> PinTarget | None:
    """Return the document with a content, or its passage at a place of the text; None without one."""
    row = snapshot.first(DOCUMENT_OF_HASH, {"content_hash": content_hash})
    if row is None:
        return None
    document_id = int(row["id"])
    if start_char is None:
        return PinTarget(document_id)
    chunk = snapshot.first(CHUNK_AT, {"document_id": document_id, "start_char": start_char})
    return None if chunk is None else PinTarget(document_id, int(chunk["id"]))


def pin_records(snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    """Yield a record of an export for each pin. Documents are named by their content, passages by the place
    where they begin; passages that are gone are left out if hidden."""
    for row in snapshot.rows(EXPORTED):
        lists: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for target in snapshot.rows(EXPORTED_TARGETS, {"id": row["id"]}):
            is_gone = target["chunk_id"] is not None and target["start_char"] is None
            if not (is_gone and target["is_hidden"]):
                record = {"document": target["content_hash"], "start_char": target["start_char"]}
                lists[target["is_hidden"]].append(record)
        yield {
            "type": "pin",
            "query": row["query"],
            "match": row["match_kind"],
            "pinned": lists[0],
            "hidden": lists[1],
        }


def _add_targets(
    transaction: Transaction, pin_id: int, pinned: Sequence[PinTarget], hidden: Sequence[PinTarget]
) -> None:
    rows = [
        {
            "pin_id": pin_id,
            "is_hidden": is_hidden,
            "position": position,
            "document_id": target.document_id,
            "chunk_id": target.chunk_id,
        }
        for is_hidden, targets in enumerate((pinned, hidden))
        for position, target in enumerate(targets)
    ]
    transaction.write_many(ADD_TARGET, rows)


def _pins(snapshot: Snapshot, rows: Sequence[Any]) -> list[Pin]:
    """The pins of some rows, with their targets."""
    lists: dict[tuple[int, bool], list[ListedTarget]] = {}
    for ids, parameters in listed_in_parts("id", [row["id"] for row in rows]):
        for each in snapshot.rows(TARGETS.format(ids=ids), parameters):
            is_gone = each["chunk_id"] is not None and each["chunk_index"] is None
            target = ListedTarget(
                each["document_id"], each["chunk_id"], each["title"], each["chunk_index"], is_gone
            )
            lists.setdefault((each["pin_id"], bool(each["is_hidden"])), []).append(target)
    return [
        Pin(
            row["id"],
            row["query"],
            PinMatch(row["match_kind"]),
            tuple(lists.get((row["id"], False), ())),
            tuple(lists.get((row["id"], True), ())),
            row["created_at"],
            row["updated_at"],
        )
        for row in rows
    ]


MAX_QUERY_WORDS = 64
"""Words of a search that pins are looked up for."""


@dataclass(frozen=True)
class AppliedPins:
    """What the pins of a search do to its ranking.

    is_found   bool (n,): whether each chunk is a result without filters; pinned ones are, hidden ones are not
    level      i64 (n,): what results are ordered by before all else; 0 if not pinned, the first has the most
    pin_of     the pin of each pinned place
    hidden_by  the pin of each hidden place
    """

    is_found: NDArray[np.bool_]
    level: NDArray[np.int64]
    pin_of: dict[int, int]
    hidden_by: dict[int, int]


def find_pins(
    snapshot: Snapshot, *texts: str, is_seen: Callable[[int], bool] | None = None
) -> tuple[PinRule, ...]:
    """Return the pins for a query, given without operators: exact ones first, then those with most words.

    `texts`: the query as typed, then as it was corrected; later ones count if earlier ones have no pin.
    `is_seen`: whether a viewer sees a document. A pin is for what the viewer sees, or for nothing.
    """
    if not any_pins(snapshot):
        return ()
    for whole in dict.fromkeys(map(key_of, texts)):
        words = whole.split(" ")[:MAX_QUERY_WORDS]
        parts = list(dict.fromkeys(_runs(words)))
        rules = of_words(snapshot, whole, parts) if whole else []
        if is_seen is not None:
            seen = (_restricted(rule, is_seen) for rule in rules)
            rules = [rule for rule in seen if rule.pinned or rule.hidden]
        if rules:
            return tuple(sorted(rules, key=_order))
    return ()


def _restricted(rule: PinRule, is_seen: Callable[[int], bool]) -> PinRule:
    """A pin of those of its targets that a viewer sees."""
    pinned, hidden = (
        tuple(target for target in targets if is_seen(target.document_id))
        for targets in (rule.pinned, rule.hidden)
    )
    return dataclasses.replace(rule, pinned=pinned, hidden=hidden)


def used_pins(rules: Sequence[PinRule]) -> tuple[UsedPin, ...]:
    """Return what a response says of its pins."""
    return tuple(
        UsedPin(rule.id, rule.query, rule.match.value, len(rule.pinned), len(rule.hidden)) for rule in rules
    )


def apply_pins(
    rules: Sequence[PinRule],
    index: Index,
    keys: Keys,
    is_found: NDArray[np.bool_],
    is_met: NDArray[np.bool_] | None,
) -> AppliedPins:
    """Return what pins do to a ranking. `is_met`: whether each chunk meets the filters; None: all do.

    Of a pinned document, the best passage that meets the filters comes first. If two pins contradict each
    other, the first counts. At most `MAX_PINNED` come first.
    """
    pinned: dict[int, int] = {}
    hidden_by: dict[int, int] = {}
    for rule in rules:
        for target in rule.hidden:
            for place in _places_of(index, target):
                if place not in pinned:
                    hidden_by.setdefault(place, rule.id)
        for target in rule.pinned:
            best = _best_place(index, target, keys, is_found, is_met, {*pinned, *hidden_by})
            if best is not None and len(pinned) < MAX_PINNED:
                pinned[best] = rule.id
    is_found = is_found.copy()
    is_found[list(hidden_by)] = False
    is_found[list(pinned)] = True
    level = np.zeros(len(is_found), dtype=np.int64)
    level[list(pinned)] = np.arange(len(pinned), 0, -1)
    return AppliedPins(is_found, level, pinned, hidden_by)


def _runs(words: Sequence[str]) -> Iterator[str]:
    """The phrases of some words that a pin may be for."""
    for start in range(len(words)):
        for n in range(1, min(MAX_WORDS, len(words) - start) + 1):
            yield " ".join(words[start : start + n])


def _order(rule: PinRule) -> tuple[bool, int, int]:
    return rule.match is not PinMatch.exact, -len(key_of(rule.query).split(" ")), rule.id


def _places_of(index: Index, target: PinTarget) -> list[int]:
    """The places of a hidden document or passage; none for a passage that is gone."""
    if target.chunk_id is None:
        return list(map(int, index.places_of_document(target.document_id)))
    place = index.place_of(target.chunk_id)
    return [] if place is None else [place]


def _best_place(
    index: Index,
    target: PinTarget,
    keys: Keys,
    is_found: NDArray[np.bool_],
    is_met: NDArray[np.bool_] | None,
    taken: set[int],
) -> int | None:
    """The place of a pinned passage, or of the best one of a document that is not taken."""
    if target.chunk_id is not None:
        place = index.place_of(target.chunk_id)
        if place is not None:
            return None if place in taken else place
    places = [place for place in _places_of(index, PinTarget(target.document_id)) if place not in taken]
    if not places:
        return None
    ids = index.chunk_ids(np.array(places, dtype=np.int64)).tolist()

    def order(each: tuple[int, int]) -> tuple[bool, bool, float, int]:
        place, chunk_id = each
        is_out = is_met is not None and not is_met[place]
        return is_out, not is_found[place], -float(keys[place]), chunk_id

    return min(zip(places, ids, strict=True), key=order)[0]
