"""Settings of logs."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import check_file_in_folder, one_of
from shoal.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Logs, and the audit log of searches."""

    log_level: str = setting(
        "info", "debug, info, warning or error", one_of("debug", "info", "warning", "error")
    )
    log_format: str = setting(
        "auto", "json, console, or auto (console in a terminal)", one_of("auto", "json", "console")
    )

    audit: str = setting(
        "off",
        "audit log, a line of JSON for every search: off, summary (without the query's text), or full "
        "(docs/audit.md)",
        one_of("off", "summary", "full"),
    )
    audit_file: str = setting(
        "", "file that the audit log is appended to; empty: stderr", check_file_in_folder
    )
