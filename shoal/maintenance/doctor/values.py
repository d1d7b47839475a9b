"""Checks that every value is one that Shoal stores."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.maintenance.doctor.findings import MAX_EXAMPLES, Check, CheckContext, Finding
from shoal.maintenance.stored_values import invalid_values


def _values(context: CheckContext) -> Sequence[Finding]:
    n = 0
    shown: list[str] = []
    with context.database.snapshot() as snapshot:
        for value in invalid_values(snapshot):
            n += 1
            if len(shown) < MAX_EXAMPLES:
                shown.append(str(value))
    if not n:
        return []
    return [
        Finding(
            "values",
            f"{n:,} values are invalid",
            "damage or another program has changed them; operations that read them fail or return wrong "
            "results",
            "`shoal restore` a backup; without one, `shoal delete` the listed documents and ingest them "
            "again",
            n=n,
            examples=tuple(shown),
        )
    ]


CHECKS = (Check("values", "the type, range and format of every value", _values, reads_all=True),)
