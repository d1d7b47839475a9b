"""Operations on the notes of an owner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shoal.client.flows import Flow, operation
from shoal.client.requests import (
    Requester,
    json_value,
    new_key,
    parse,
)
from shoal.declared.notes import DEFAULT_OWNER
from shoal.declared.operations.notes import OtherNoteOperations
from shoal.models.notes import (
    NoteOutcome,
    NoteOutcomes,
)

NDJSON = "application/x-ndjson"
BATCH_NOTES = 1000
BATCH_BYTES = 8 * 1024 * 1024
"""Most notes of a request of `add_notes`, the limit of the service, and about how many bytes."""
BULK_SECONDS = 120.0
"""Additional time for the response to a bulk upload, which stores its notes first."""


class NoteUploads(Requester):
    """The operation on notes that sends them in parts."""

    @operation
    def add_notes(
        self, notes: Iterable[Mapping[str, Any]], *, owner: str = DEFAULT_OWNER
    ) -> Flow[NoteOutcomes]:
        """Store notes, given as objects with the arguments of `add_note`; one result for each, in order.

        A bad note does not stop the others. They are sent in batches of up to a thousand, so that some are
        stored if a later request fails.
        """
        results: list[NoteOutcome] = []
        for batch in _batches(notes):
            response = yield from self._request(
                OtherNoteOperations.add_notes,
                {},
                query={"owner": owner},
                headers={"Content-Type": NDJSON, "Idempotency-Key": new_key()},
                json=None,
                body=[batch],
                slow=BULK_SECONDS,
            )
            results += parse(NoteOutcomes, response).results
        return NoteOutcomes.summed(results)


def _batches(notes: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield notes as JSON lines, with at most BATCH_NOTES lines and about BATCH_BYTES bytes."""
    lines: list[bytes] = []
    size = 0
    for note in notes:
        line = json.dumps(json_value(note)).encode() + b"\n"
        if lines and (len(lines) == BATCH_NOTES or size + len(line) > BATCH_BYTES):
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)
