"""All settings: name, type, default, bounds and meaning of every `SHOAL_` variable.

`Settings.from_environment()` reads all variables at once and reports every mistake in one message. A misspelt
variable is an error: a limit that is never applied is worse than a service that does not start. An empty
variable means the default.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import SettingsError
from shoal.settings.library import (
    InputLimits,
    LearningSettings,
    ModelSettings,
    ScoringSettings,
    SourceSettings,
)
from shoal.settings.service import JobSettings, LogSettings, NoteSettings, QuerySettings, ServiceSettings

PREFIX = "SHOAL_"


@dataclass(frozen=True, kw_only=True)
class Settings(
    LogSettings,
    JobSettings,
    QuerySettings,
    SourceSettings,
    ModelSettings,
    NoteSettings,
    LearningSettings,
    ScoringSettings,
    InputLimits,
    ServiceSettings,
):
    """The settings of one process. Field `x` is read from `SHOAL_X`.

    The fields of the last base come first: dataclasses collect them in this order.
    """

    @classmethod
    def from_environment(cls, **overrides: Any) -> Settings:
        """Read the settings of this process's environment; `overrides` that are not None win over it.

        An empty variable means the default: `SHOAL_PORT= shoal serve`, or a compose file's `${PORT:-}`.
        Raises SettingsError, which names every unknown variable and every invalid value.
        """
        variables = {
            name: text
            for name, text in os.environ.items()
            if name.startswith(PREFIX) and not name.startswith(f"{PREFIX}TEST_")
        }
        problems = [_unknown(name) for name in variables if name[len(PREFIX) :].lower() not in _FIELDS]
        set_variables = {name: text for name, text in variables.items() if text}
        values, parse_errors = _parse(set_variables)
        problems += parse_errors
        given_overrides = {name: value for name, value in overrides.items() if value is not None}
        values.update(given_overrides)
        problems += [
            f"{_quoted(name, _original_value(name, value, given_overrides, set_variables))}: {message}"
            for name, value in values.items()
            if (check := _FIELDS[name].metadata["check"]) and (message := check(value))
        ]
        if problems:
            raise SettingsError("cannot use these settings:\n  " + "\n  ".join(problems))
        return cls(**values)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file of this machine."""
        return self.database_url.startswith("sqlite:///")

    @property
    def database_path(self) -> Path:
        """The file of the SQLite database, absolute. Raises SettingsError if the database is no file."""
        if not self.is_sqlite:
            raise SettingsError(
                "this needs a library in a file of SQLite, and SHOAL_DATABASE_URL names one on PostgreSQL"
            )
        return Path(self.database_url.removeprefix("sqlite:///")).absolute()

    @property
    def may_exist(self) -> bool:
        """Whether the file of the database exists; a database on a server is not asked."""
        return not self.is_sqlite or self.database_path.exists()

    @property
    def database_place(self) -> str:
        """The path of the database, or its URL without the password, for messages."""
        return str(self.database_path) if self.is_sqlite else self.shown_database_url

    @property
    def shown_database_url(self) -> str:
        """The URL of the database without its password, for messages."""
        return shown("SHOAL_DATABASE_URL", self.database_url)

    @property
    def data_path(self) -> Path:
        """The folder of collections, catalog, embedded broker and arriving uploads, absolute."""
        if self.data_dir:
            return Path(self.data_dir).absolute()
        if not self.is_sqlite:
            return Path("shoal-data").absolute()
        return self.database_path.with_name(self.database_path.name + "-data")

    def environment(self) -> dict[str, str]:
        """Return these settings as variables, for a child process. Defaults are left out."""
        return {
            PREFIX + name.upper(): _text(getattr(self, name))
            for name, field in _FIELDS.items()
            if getattr(self, name) != field.default
        }


def shown(name: str, text: str) -> str:
    """Return the value of a variable without secrets and without the password in a URL."""
    field = _FIELDS.get(name.removeprefix(PREFIX).lower())
    if field is not None and field.metadata["secret"]:
        return "(hidden)" if text else ""
    if name.endswith("_URL"):
        # Whatever it is, it may have been meant as one URL.
        return _without_password(text)
    return re.sub(r"\S++", lambda word: _without_password(word.group()), text)


_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&;\s]*+", re.IGNORECASE)


def _without_password(url: str) -> str:
    """Hide what may be a password: in `?password=`, and between the first `:` after `://` and the last
    `@`."""
    url = _PASSWORD_PARAMETER.sub(r"\1***", url)
    before, _, host = url.rpartition("@")
    scheme, separator, rest = before.partition("://")
    user, colon, password = (rest if separator else scheme).partition(":")
    if not password:
        return url
    return f"{scheme + separator if separator else ''}{user}{colon}***@{host}"


def describe() -> list[dict[str, str]]:
    """List name, type, default and meaning of every setting, in order, as text."""
    return [
        {
            "name": PREFIX + name.upper(),
            "type": str(field.type),
            "default": _text(field.default),
            "meaning": str(field.metadata["meaning"]),
        }
        for name, field in _FIELDS.items()
    ]


_FIELDS: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(Settings)}


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _quoted(name: str, value: Any) -> str:
    """Format `NAME=value` for a message, without secrets."""
    variable = PREFIX + name.upper()
    if _FIELDS[name].metadata["secret"]:
        return variable
    return f"{variable}={shown(variable, value)!r}" if isinstance(value, str) else f"{variable}={value!r}"


def _original_value(
    name: str, value: Any, overrides: Mapping[str, Any], set_variables: Mapping[str, str]
) -> Any:
    """Return a value as the caller or the environment wrote it."""
    return value if name in overrides else set_variables[PREFIX + name.upper()]


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, [PREFIX + field.upper() for field in _FIELDS], n=1)
    hint = f"; did you mean {close[0]}?" if close else "; `shoal settings` lists all settings"
    return f"{name}: there is no such setting{hint}"


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


_BOOLEANS = {
    spelling: value
    for value, words in ((True, "1 true t yes y on"), (False, "0 false f no n off"))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": _finite,
    "bool": _BOOLEANS.__getitem__,
}
"""By the type of a setting; they raise KeyError or ValueError."""


def _parse(set_variables: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Parse the variables that are set: values by field name, and a message for each that cannot be
    parsed."""
    values: dict[str, Any] = {}
    parse_errors: list[str] = []
    for name, field in _FIELDS.items():
        variable = PREFIX + name.upper()
        if variable not in set_variables:
            continue
        try:
            values[name] = _PARSERS[str(field.type)](set_variables[variable])
        except (KeyError, ValueError):
            kind = {"int": "a whole number", "float": "a number", "bool": "0 or 1"}[str(field.type)]
            parse_errors.append(f"{_quoted(name, set_variables[variable])}: must be {kind}")
    return values, parse_errors
