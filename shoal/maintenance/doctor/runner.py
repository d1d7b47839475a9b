"""All checks in their order, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.errors import ReadOnlyDatabaseError, ShoalError
from shoal.maintenance.doctor.content import CHECKS as OF_CONTENT
from shoal.maintenance.doctor.file import CHECKS as OF_FILE
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding
from shoal.maintenance.doctor.jobs import CHECKS as OF_JOBS
from shoal.maintenance.doctor.learning import CHECKS as OF_LEARNING
from shoal.maintenance.doctor.values import CHECKS as OF_VALUES

CHECKS: tuple[Check, ...] = (*OF_FILE, *OF_CONTENT, *OF_JOBS, *OF_LEARNING, *OF_VALUES)
"""What comes later rests on what came before: a document is made whole before its words are counted, and only then is
any value that is left damaged called so."""

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
    context: CheckContext, *, repair: bool = False, quick: bool = False, watch: Watcher = lambda _: None
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
        found = _look(check, context)
        if repair and check.repair is not None and any(finding.can_repair for finding in found):
            before, found = found, _repair(check, context)
            left = {finding.problem for finding in found}
            repaired += [finding for finding in before if finding.can_repair and finding.problem not in left]
        if not any(finding.is_unseen for finding in found):
            looked_at.append(check.name)
        findings += found
        if check.is_vital and any(finding.is_harm for finding in found):
            break
    return Report(tuple(looked_at), tuple(findings), tuple(repaired))


def _look(check: Check, context: CheckContext) -> Sequence[Finding]:
    try:
        return check.look(context)
    except ReadOnlyDatabaseError as error:
        return [_needs_writing(check, error)]
    except Exception as error:  # a damaged value may fail any statement and any line that reads it
        return [_unseen(check, error)]


def _repair(check: Check, context: CheckContext) -> Sequence[Finding]:
    assert check.repair is not None, "whoever calls has looked"
    try:
        check.repair(context)
    except Exception as error:  # as above; what can be mended after it still is
        return [*_look(check, context), _unmended(check, error)]
    return _look(check, context)


def _needs_writing(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"this was not looked at: {error}",
        "the check itself has to write; nothing is known of it, and nothing is wrong by that",
        "run `shoal doctor` as a user who may write to the library, or on a copy of it",
        is_harm=False,
        is_unseen=True,
    )


def _unseen(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"this could not be looked at: {_reason(error)}",
        "the database did not answer, or with something that no Shoal has stored, so nothing is known of it",
        "see the other findings; if there are none, try again when the database is not busy",
        is_unseen=True,
    )


def _unmended(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"the repair did not come to its end: {_reason(error)}",
        "what it had done is done; nothing was lost",
        "run `shoal doctor --repair` again, when there is space on the disk and nothing else writes much",
    )


def _reason(error: Exception) -> str:
    """What went wrong, with the words of SQLite where it was SQLite's."""
    if isinstance(error, ShoalError):
        cause = getattr(error.__cause__, "orig", error.__cause__)
        return str(error) if cause is None else f"{error} ({cause})"
    return f"{type(error).__name__}: {error}"
