"""How a source is added: its arguments, checked and stored as JSON, and where its secrets are."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from shoal.conversion.folder_listing import PatternError, Selection
from shoal.declared.arguments import Choice, Number, Whole, check_list, check_names
from shoal.declared.sources import LIMITS, SourceFields, SourceLimits
from shoal.errors import QueryError, SourceError
from shoal.formats.drafts import make_draft
from shoal.models.sources import MAX_NAME_CHARS, NAME_PATTERN, WhenGone
from shoal.settings import Settings
from shoal.sources.stores import KINDS, URL_OPTIONS, Place, check_allowed, checked_url, scheme_of
from shoal.storage.column_values import compact_json
from shoal.support.regular_files import read_file

MAX_OBJECTS = 1_000_000
"""Most objects of a source, unless it was added with another limit."""
MAX_PATTERNS = 100
IDENTIFYING = {
    "s3": ("endpoint_url",),
    "az": ("account_name",),
    "sftp": ("port", "username"),
    "webdav": ("username",),
    "webdavs": ("username",),
}
MAX_SECRET_BYTES = 64 * 1024
MIN_SECONDS, MAX_SECONDS = 60.0, 366 * 86_400.0
"""Shortest and longest time between two runs."""
MAX_VALUE_CHARS = 2_000
MAX_TIME_CHARS = 100
SECRET_PREFIX = "SOURCE_SECRET_"  # noqa: S105 - the beginning of a name
"""Secrets come only from variables that begin so: no source may read other ones."""
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400,
          "day": 86_400, "w": 604_800, "week": 604_800}  # fmt: skip
_TIME = re.compile(r"(?:every )?(?:(\d{1,6}(?:\.\d{1,3})?) ?)?([a-z]{1,10})")
_KEY_STORE = re.compile(r"keyring:([^/]{1,200})/(.{1,200})")
_NAME = re.compile(NAME_PATTERN)
_SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


@dataclass(frozen=True, slots=True)
class SourceArguments:
    """The arguments of a source as they are stored."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    when_gone: WhenGone = WhenGone.delete
    max_objects: int = MAX_OBJECTS
    max_bytes: int | None = None
    max_seconds: int | None = None
    max_rate: float | None = None

    @classmethod
    def of_json(cls, text: str) -> SourceArguments:
        given = json.loads(text)
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return cls(**{**given, **lists, "when_gone": WhenGone(given["when_gone"])})

    @property
    def json(self) -> str:
        return compact_json({name: getattr(self, name) for name in self.__dataclass_fields__})

    def changed(self, **limits: Unpack[SourceLimits]) -> SourceArguments:
        """Return the arguments with those of `limits` that are not None. Raises QueryError."""
        return dataclasses.replace(self, **_checked_limits(limits))

    def place(self, settings: Settings) -> Place:
        """Return where the store is, with the values of the secrets. Raises SourceError."""
        secrets = {name: secret_of(where, settings) for name, where in self.secrets.items()}
        return Place(self.url, self.options, secrets, Selection.of(self.include, self.exclude))

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The options by which places with one address differ, besides those in their source paths."""
        names = IDENTIFYING.get(scheme_of(self.url), ())
        return tuple((name, self.options[name]) for name in names if name in self.options)

    @property
    def document_fields(self) -> dict[str, Any]:
        """The fields that each document of the source is given."""
        fields: dict[str, Any] = {"tags": self.tags or None}
        if self.allow is not None or self.deny:
            fields |= {"allow": self.allow, "deny": self.deny or None}
        return fields


def check_arguments(settings: Settings, url: object, **fields: Unpack[SourceFields]) -> SourceArguments:
    """Return the checked arguments of a source. Raises QueryError or InvalidFieldError, which name one."""
    check_names("add", fields, SourceFields.__annotations__)
    address = checked_url(url)
    check_allowed("url", address, settings)
    kind = KINDS[scheme_of(address)]
    options = _texts("options", fields.get("options"), kind.options)
    for name in URL_OPTIONS & options.keys():
        check_allowed(f"options.{name}", options[name], settings)
    secrets = _texts("secrets", fields.get("secrets"), kind.secrets)
    for name, reference in secrets.items():
        _check_reference(f"secrets.{name}", reference)
    # The rules of documents, whose fields these are.
    draft = make_draft(
        content="checked",
        settings=settings,
        tags=fields.get("tags"),
        allow=fields.get("allow"),
        deny=fields.get("deny"),
    )
    return SourceArguments(
        address,
        options,
        secrets,
        _checked_patterns("include", fields.get("include")),
        _checked_patterns("exclude", fields.get("exclude")),
        draft.tags,
        allow=None if draft.rights is None or draft.rights.allow is None else tuple(draft.rights.allow),
        deny=() if draft.rights is None else tuple(draft.rights.deny),
        **_checked_limits(fields),
    )


def _checked_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises QueryError."""
    checked: dict[str, Any] = {}
    for name, argument in LIMITS.items():
        if (value := given.get(name)) is not None:
            assert isinstance(argument.kind, Choice | Whole | Number)
            checked[name] = argument.kind.check(name, value)
    return checked


def check_name(name: object) -> str:
    """Raises QueryError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise QueryError(
            "name", f"must be of a to z, 0 to 9, ., _ and -, at most {MAX_NAME_CHARS} characters"
        )
    return name


def check_every(every: object) -> float | None:
    """Return the seconds of a time such as `15 min`; None for an empty text: no run begins by itself.

    Raises QueryError.
    """
    if every in (None, ""):
        return None
    seconds: float | None = None
    if isinstance(every, int | float) and not isinstance(every, bool):
        seconds = float(every)
    elif isinstance(every, str) and (
        match := _TIME.fullmatch(" ".join(every[:MAX_TIME_CHARS].lower().split()))
    ):
        unit = _UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s"))
        seconds = None if unit is None else float(match[1] or 1) * unit
    if seconds is None or not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise QueryError("every", "must be a time from 1 min to 366 d, such as `15 min`, `2 h` or `1 day`")
    return seconds


def _one_line(text: str) -> str:
    return " ".join(text[:MAX_TIME_CHARS].lower().split())


def secret_of(reference: str, settings: Settings) -> str:
    """Return the value of a secret. Raises SourceError, which names where it should be."""
    where, _, name = reference.partition(":")
    try:
        if where == "env":
            value = os.environ[name]
        elif where == "file":
            value = read_file(Path(settings.secrets_dir) / name, MAX_SECRET_BYTES).decode().strip()
        else:
            value = _from_key_store(reference)
    except KeyError:
        raise SourceError(f"the variable {name} is not set", is_temporary=False) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"the secret {name} cannot be read: {reason}", is_temporary=False) from None
    if not value:
        raise SourceError(f"the secret {name} is empty", is_temporary=False)
    return value


def _from_key_store(reference: str) -> str:
    """Raises SourceError."""
    match = _KEY_STORE.fullmatch(reference)
    assert match, "references are checked"
    try:
        import keyring
    except ImportError as error:
        raise SourceError(
            "secrets of the system's key store need the package keyring: pip install keyring",
            is_temporary=False,
        ) from error
    value = keyring.get_password(match[1], match[2])
    if value is None:
        raise SourceError(f"the key store has no secret {match[1]}/{match[2]}", is_temporary=False)
    return str(value)


def _check_reference(where_given: str, reference: str) -> None:
    where, _, name = reference.partition(":")
    is_name = bool(_SECRET_NAME.fullmatch(name)) and name.strip(".") != ""
    is_valid = (
        (where == "env" and is_name and name.startswith(SECRET_PREFIX))
        or (where == "file" and is_name)
        or bool(_KEY_STORE.fullmatch(reference))
    )
    if not is_valid:
        raise QueryError(
            where_given,
            f"must say where the secret is, not what it is: env:{SECRET_PREFIX}NAME, file:NAME (in the "
            "folder SHOAL_SECRETS_DIR) or keyring:SERVICE/NAME",
        )


def _texts(field: str, given: Mapping[str, Any] | None, known: frozenset[str]) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise QueryError(field, "must be an object")
    for name, value in given.items():
        if name not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise QueryError(field, f"this kind of source has no {str(name)[:40]!r}; {takes}")
        is_text = isinstance(value, str) and value.isprintable() and 0 < len(value) <= MAX_VALUE_CHARS
        if not is_text:
            raise QueryError(f"{field}.{name}", f"must have 1 to {MAX_VALUE_CHARS:,} printable characters")
    return dict(given)


def _checked_patterns(field: str, given: object) -> tuple[str, ...]:
    patterns = () if given is None else tuple(check_list(field, given))
    if len(patterns) > MAX_PATTERNS or not all(isinstance(each, str) for each in patterns):
        raise QueryError(field, f"must have at most {MAX_PATTERNS} texts")
    try:
        Selection.of(patterns)
    except PatternError as error:
        raise QueryError(field, str(error)) from None
    return patterns
