"""Settings of conversion and fetching."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between, check_hosts
from shoal.settings.declaration import setting
from shoal.support.byte_units import GIB, MIB


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """Files that are converted, and pages and files that are fetched."""

    keep_originals: bool = setting(
        False, "1 keeps the files that documents were converted from, for download and for PDF pages"
    )
    conversion_seconds: float = setting(
        90.0,
        "longest conversion of a file of 16 MiB, seconds; larger files get proportionally more",
        between(1, 3600),
    )
    conversion_memory_bytes: int = setting(
        2 * GIB, "most memory of the process that converts a file, bytes", at_least(256 * MIB)
    )
    ocr: bool = setting(
        False, "1 reads PDF pages without text with `tesseract`, if that program is installed"
    )

    # Pages and files of the web
    fetch_urls: str = setting(
        "",
        "hosts that documents may be fetched from, separated by commas: `example.org`, `*.example.org` for "
        "the names below it, `*` for any; `example.org:8080` for another port than 80 and 443. Empty: "
        "nothing is fetched",
        check_hosts,
    )
    fetch_private: str = setting(
        "",
        "those of these hosts that may have an address of this machine or of a private network, in the same "
        "form; ports do not matter",
        check_hosts,
    )
    # A worker that works longer than a fifth of `item_time_limit` on a small document is killed.
    fetch_seconds: float = setting(
        30.0, "longest fetch of one page or file with all redirects, seconds", between(0.1, 90)
    )
