"""Settings of saved searches and the query log."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import between, check_hosts, one_of
from shoal.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class QuerySettings:
    """Queries that are kept: saved searches with their webhooks, and the query log."""

    webhook_hosts: str = setting(
        "",
        "hosts that webhooks of saved searches may be sent to, in the form of `fetch_urls`. Empty: none, and "
        "searches cannot be saved",
        check_hosts,
    )
    webhook_private: str = setting(
        "",
        "those of these hosts that may have an address of this machine or of a private network, in the same "
        "form; ports do not matter",
        check_hosts,
    )
    webhook_seconds: float = setting(
        10.0,
        "longest delivery of a webhook, seconds; a receiver should answer first, then work",
        between(0.1, 60),
    )
    # Pauses of 10 s, four times as long after each try, at most 6 h: eight tries take about 10 hours.
    webhook_attempts: int = setting(8, "a webhook is given up after this many tries", between(1, 20))
    webhook_days: int = setting(
        30, "deliveries of webhooks that have ended are deleted after this many days", between(1, 3650)
    )

    # Query log
    query_log: str = setting(
        "off",
        "`queries` stores every query with its first results, and clicks that programs report "
        "(docs/query-log.md); off stores nothing",
        one_of("off", "queries"),
    )
    query_log_days: int = setting(
        90, "logged queries and clicks are deleted after this many days", between(1, 3650)
    )
