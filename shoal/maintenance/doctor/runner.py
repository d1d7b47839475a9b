"""Runs all checks in order and collects their findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.errors import ReadOnlyDatabaseError, ShoalError
from shoal.maintenance.doctor import file, jobs
from shoal.maintenance.doctor.content import LEARNING_CHECKS, NOTE_CHECKS, TEXT_CHECKS, VALUE_CHECKS
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, Severity

CHECKS: tuple[Check, ...] = (
    *file.CHECKS,
    *TEXT_CHECKS,
    *file.INDEX_CHECKS,
    *jobs.CHECKS,
    *LEARNING_CHECKS,
    *NOTE_CHECKS,
    *VALUE_CHECKS,
)
"""Later checks rely on earlier ones: documents are repaired before their words are counted, and values that
no repair has replaced are reported last."""

Watcher = Callable[[Check], None]


@dataclass(frozen=True, slots=True)
class Report:
    """`looked_at`: names of the checks that ran.

    `findings`: problems that remain. `repaired`: problems that were fixed.
    """

    looked_at: tuple[str, ...]
    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether no error remains; notes are allowed."""
        return not any(finding.is_error for finding in self.findings)


def run_checks(
    context: CheckContext, *, repair: bool = False, quick: bool = False, watch: Watcher = lambda _: None
) -> Report:
    """Run the checks; with `repair`, fix what can be fixed without losing a document.

    `quick` skips the checks that read the whole library. Safe while the library is in use. `watch` is called
    with each check before it runs.
    """
    completed: list[str] = []
    findings: list[Finding] = []
    repaired: list[Finding] = []
    for check in CHECKS:
        if (quick and check.reads_all) or (check.is_for_sqlite and not context.settings.is_sqlite):
            continue
        watch(check)
        current = _find(check, context)
        if repair and check.repair is not None and any(finding.can_repair for finding in current):
            before, current = current, _repair(check, context)
            remaining = {finding.problem for finding in current}
            repaired += [
                finding for finding in before if finding.can_repair and finding.problem not in remaining
            ]
        if not any(finding.is_unseen for finding in current):
            completed.append(check.name)
        findings += current
        if check.is_vital and any(finding.is_error for finding in current):
            break
    return Report(tuple(completed), tuple(findings), tuple(repaired))


def _find(check: Check, context: CheckContext) -> Sequence[Finding]:
    try:
        return check.find(context)
    except ReadOnlyDatabaseError as error:
        return [_needs_writing(check, error)]
    except Exception as error:  # a damaged value can make any statement and any line of a check fail
        return [_failed_check(check, error)]


def _repair(check: Check, context: CheckContext) -> Sequence[Finding]:
    assert check.repair is not None, "the caller has checked this"
    try:
        check.repair(context)
    except Exception as error:  # as in _find; later repairs still run
        return [*_find(check, context), _failed_repair(check, error)]
    return _find(check, context)


def _needs_writing(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"the check was skipped: {error}",
        "the check itself has to write to the database; this is not a sign of damage",
        "run `shoal doctor` as a user who may write to the library, or on a copy of it",
        severity=Severity.note,
        is_unseen=True,
    )


def _failed_check(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"the check failed: {_reason(error)}",
        "the database did not answer, or returned a value that Shoal never stores; the result of the check "
        "is unknown",
        "see the other findings; if there are none, try again when the database is not busy",
        is_unseen=True,
    )


def _failed_repair(check: Check, error: Exception) -> Finding:
    return Finding(
        check.name,
        f"the repair was not completed: {_reason(error)}",
        "the completed part of the repair is kept; nothing was lost",
        "run `shoal doctor --repair` again when the disk has free space and no other program writes much",
    )


def _reason(error: Exception) -> str:
    """The message of an error, with SQLite's own message if SQLite caused it."""
    if isinstance(error, ShoalError):
        cause = getattr(error.__cause__, "orig", error.__cause__)
        return str(error) if cause is None else f"{error} ({cause})"
    return f"{type(error).__name__}: {error}"
