"""All checks in their order, and what came out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.doctor.content import CHECKS as OF_CONTENT
from shoal.doctor.file import CHECKS as OF_FILE
from shoal.doctor.findings import Check, Finding, Patient
from shoal.doctor.jobs import CHECKS as OF_JOBS
from shoal.doctor.learning import CHECKS as OF_LEARNING
from shoal.errors import ShoalError, StorageError

CHECKS: tuple[Check, ...] = (*OF_FILE, *OF_CONTENT, *OF_JOBS, *OF_LEARNING)
"""What comes later rests on what came before: a document is made whole before its words are counted."""

Watcher = Callable[[Check], None]


@dataclass(frozen=True, slots=True)
class Report:
    """`looked_at`: names of the checks that were made. `findings`: what is wrong; `repaired`: what was."""

    looked_at: tuple[str, ...]
    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Nothing harmful is left."""
        return not any(finding.is_harm for finding in self.findings)


def examine(
    patient: Patient, *, repair: bool = False, quick: bool = False, watch: Watcher = lambda _: None
) -> Report:
    """Look at a library; with `repair`, mend what can be mended without losing a document.

    `quick` leaves out the checks that read the whole library. Safe while the library is in use. `watch` is told of
    each check before it is made.
    """
    looked_at: list[str] = []
    findings: list[Finding] = []
    repaired: list[Finding] = []
    for check in CHECKS:
        if quick and check.reads_all:
            continue
        watch(check)
        found = _look(check, patient)
        if repair and check.mend is not None and any(finding.can_repair for finding in found):
            before, found = found, _mend(check, patient)
            left = {finding.problem for finding in found}
            repaired += [finding for finding in before if finding.can_repair and finding.problem not in left]
        looked_at.append(check.name)
        findings += found
        if check.is_vital and any(finding.is_harm for finding in found):
            break
    return Report(tuple(looked_at), tuple(findings), tuple(repaired))


def _look(check: Check, patient: Patient) -> Sequence[Finding]:
    try:
        return check.look(patient)
    except (StorageError, sqlite3.Error) as error:
        return [_unseen(check, error)]


def _mend(check: Check, patient: Patient) -> Sequence[Finding]:
    assert check.mend is not None, "whoever calls has looked"
    try:
        check.mend(patient)
    except (ShoalError, sqlite3.Error) as error:
        return [*_look(check, patient), _unmended(check, error)]
    return _look(check, patient)


def _unseen(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"this could not be looked at: {error}",
        "the database did not answer, so nothing is known of it",
        "see the other findings; if there are none, try again when the database is not busy",
    )


def _unmended(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"the repair did not come to its end: {error}",
        "what it had done is done; nothing was lost",
        "run `shoal doctor --repair` again, when there is space on the disk and nothing else writes much",
    )
