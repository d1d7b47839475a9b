"""The settings page, generated from the code: `python tests/docs/settings_page.py` rewrites it."""

from __future__ import annotations

from pathlib import Path

from shoal.settings import describe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

Settings are environment variables, read once at the start. An unknown `SHOAL_` variable or an invalid value
is an error that names it: a limit that was never applied is worse than a service that does not start.
`shoal settings` lists all settings with their values. Options of the command line override them.

Truth values are `0` and `1`; sizes are bytes, times are seconds.

| variable | default | meaning |
|---|---|---|
"""


def page() -> str:
    """Build the whole page as Markdown."""
    rows = (
        f"| `{setting['name']}` | {_code(setting['default'])} | {setting['meaning']} |\n"
        for setting in describe()
    )
    return INTRODUCTION + "".join(rows)


def _code(text: str) -> str:
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
