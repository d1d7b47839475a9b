"""Check of the totals that triggers maintain: they must equal a count."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.maintenance.doctor.findings import Check, CheckContext, Finding
from shoal.storage.totals import count_again, wrong_totals


def _totals(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        wrong = [totals.table for totals in wrong_totals(snapshot)]
    if not wrong:
        return []
    return [
        Finding(
            "totals",
            f"totals differ from a count: {', '.join(wrong)}",
            "another program has changed the database; status, pages and metrics show wrong numbers, and "
            "scores change slightly",
            "--repair counts again",
            n=len(wrong),
            can_repair=True,
        )
    ]


def _count_again(context: CheckContext) -> None:
    with context.database.write() as transaction:
        count_again(transaction)


CHECKS = (Check("totals", "kept totals", _totals, _count_again, reads_all=True),)
