"""Every `SHOAL_` variable: name, type, default, bounds and meaning, in one place.

`Settings.from_environment()` reads them all at once and reports every mistake in one message: a misspelt
variable is an error, because a limit that was never applied is worse than a service that does not start.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import SettingsError

PREFIX = "SHOAL_"
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Check = Callable[[Any], str | None]


def _at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"must be at least {low:g}"


def _between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else f"must be between {low:g} and {high:g}"


def _one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"must be one of {', '.join(choices)}"


def _broker(value: str) -> str | None:
    schemes = ("filesystem://", "redis://", "rediss://", "memory://")
    return None if value.startswith(schemes) else "must begin with filesystem:// or redis://"


def _queue(value: str) -> str | None:
    return (
        None
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value)
        else "must be letters, digits, - and _ (at most 64)"
    )


def _database(value: str) -> str | None:
    return None if value.startswith("sqlite:///") else "must begin with sqlite:/// (the only store so far)"


def _keys(value: str) -> str | None:
    # Imported here: most runs of the CLI have no keys to read.
    from shoal.support.api_keys import parse_keys

    try:
        parse_keys(value)
    except ValueError as error:
        return str(error)
    return None


def _in_a_folder(value: str) -> str | None:
    path = Path(value).absolute()
    if value and path.is_dir():
        return "must be a file, and is a folder"
    return None if path.parent.is_dir() else "is in a folder that does not exist"


def _setting(default: Any, meaning: str, check: Check | None = None, *, secret: bool = False) -> Any:
    """`secret`: the value is never shown."""
    metadata = {"meaning": meaning, "check": check, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process. Field `x` is read from `SHOAL_X`."""

    # Where things are
    database_url: str = _setting("sqlite:///shoal.db", "database, as sqlite:///PATH", _database)
    broker_url: str = _setting(
        "filesystem://", "message broker: filesystem:// (embedded) or redis://HOST:PORT/DB", _broker
    )
    broker_queue: str = _setting(
        "shoal", "name of the queue; installations that share a Redis database need different ones", _queue
    )
    data_dir: str = _setting("", "folder of the embedded broker; empty: PATH-OF-THE-DATABASE + '-data'")
    host: str = _setting("127.0.0.1", "address the API listens on")
    port: int = _setting(8000, "port the API listens on", _between(0, 65535))
    api_keys: str = _setting(
        "",
        "keys of the API, by commas: `read:KEY` or `write:KEY`, or `sha256:` and the hash of the key in its place; "
        "`shoal new-key` makes one. Empty: no key is asked for",
        _keys,
        secret=True,
    )
    api_key: str = _setting("", "key that `shoal upload` and `shoal jobs` send to a service", secret=True)
    allow_anonymous: bool = _setting(
        False, "1 lets the API listen on an address other machines can reach, although it has no keys"
    )
    workers: int = _setting(1, "worker processes that ingest", _between(1, 256))
    api_threads: int = _setting(8, "requests the API answers at the same time", _between(1, 256))
    proxies: int = _setting(
        0,
        "reverse proxies in front whose `X-Forwarded-For` is believed; the address of a caller counts for the rate limit",
        _between(0, 8),
    )

    # Limits of requests
    max_connections: int = _setting(
        512,
        "open connections; beyond, the one that has been idle for longest is closed for a new one",
        _between(8, 100_000),
    )
    max_connections_per_address: int = _setting(
        256, "the same for the connections of one address; 0 behind a proxy: no limit", _at_least(0)
    )
    rate_limit: int = _setting(
        0,
        "requests a minute that are answered to one key, or without keys to one address; 0: no limit",
        _at_least(0),
    )
    max_queue_items: int = _setting(
        1_000_000, "documents are refused while so many wait for the workers; 0: no limit", _at_least(0)
    )
    max_queue_bytes: int = _setting(
        16 * GIB,
        "documents are refused while so many bytes of them wait for the workers; 0: no limit",
        _at_least(0),
    )
    max_event_streams: int = _setting(
        32, "listeners to the events of jobs at the same time, beside `api_threads`", _between(0, 1024)
    )
    event_heartbeat_seconds: float = _setting(
        15.0,
        "longest silence of an event stream; proxies end connections that are silent for longer",
        _at_least(0.05),
    )
    event_stream_seconds: float = _setting(
        3600.0, "an event stream ends after this long; browsers connect again by themselves", _at_least(0.1)
    )

    # Limits of input
    max_query_chars: int = _setting(4096, "longest query, characters", _at_least(1))
    # A hundred words take 0.3 s in 100,000 chunks, and tell no more than the first dozens.
    max_query_terms: int = _setting(
        64,
        "most different words of a query that are searched for, those of phrases included, and most that it excludes; "
        "its subject is told from all",
        _between(1, 1000),
    )
    search_timeout: float = _setting(
        10.0,
        "a search, or another read that a request asks for, is stopped after this long, seconds; 0: no limit",
        _at_least(0),
    )
    max_top_k: int = _setting(100, "most results a search may ask for", _between(1, 10_000))
    max_title_chars: int = _setting(512, "longest title, characters", _at_least(1))
    max_source_path_chars: int = _setting(1024, "longest source path, characters", _at_least(1))
    max_tag_chars: int = _setting(64, "longest tag, characters", _at_least(1))
    max_tags: int = _setting(64, "most tags of a document", _at_least(0))
    max_metadata_bytes: int = _setting(
        64 * KIB, "largest metadata of a document, bytes of JSON", _at_least(2)
    )
    max_document_bytes: int = _setting(32 * MIB, "largest document, bytes of UTF-8", _at_least(1))
    max_upload_bytes: int = _setting(2 * GIB, "largest upload, bytes", _at_least(1))
    max_upload_items: int = _setting(100_000, "most documents in one upload", _at_least(1))
    max_archive_ratio: float = _setting(
        200.0, "how many times its size an archive, or a file in it, may unpack to", _at_least(1)
    )
    min_charset_confidence: float = _setting(
        0.8, "how sure the recognition of an encoding other than UTF-8 must be, 0 to 1", _between(0, 1)
    )

    # Chunking and scoring
    sensitivity: float = _setting(
        0.5, "how deep a dip in similarity must be to cut (lower: more chunks)", _at_least(0)
    )
    smooth_window: int = _setting(
        2, "sentences to each side that smooth the profile of a sentence", _between(0, 50)
    )
    min_chunk_sentences: int = _setting(2, "fewest sentences of a chunk (within its section)", _at_least(1))
    max_chunk_sentences: int = _setting(30, "most sentences of a chunk; 0: no limit", _at_least(0))
    max_chunk_chars: int = _setting(8000, "longest chunk, characters", _at_least(2000))
    # nDCG@10 of reef search, mean of scifact, cranfield, medline and cacm: 0.327 at 0, 0.335 at 0.5, 0.343 at 1.
    heading_weight: float = _setting(
        1.0, "how much title and headings count in the profiles of their chunks, 0 to 1", _between(0, 1)
    )
    reefs_per_chunk: int = _setting(38, "most reefs stored with a chunk (z > 0 only)", _between(1, 207))
    # nDCG@10 on scifact, with an earlier build of the data: 0.236 with 10, 0.306 with 20, 0.316 with 38.
    reefs_per_query: int = _setting(38, "most reefs of a query that take part in a search", _between(1, 207))
    # benchmarks/hybrid.py: reefs alone gain 16 % with 0.25, 27 % with 0.5, 34 % with 1; beside words 0.5 is best.
    feedback_weight: float = _setting(
        0.5,
        "how much the profiles of the passages that match a query's words best count beside its own, where learning is "
        "on; 0: not at all",
        _between(0, 10),
    )

    # Learning the corpus's own words. Gains are those of learning in nDCG@10 of reef search, mean of scifact, cranfield,
    # medline and cacm, as benchmarks/vocabulary_learning.py --vary prints them; differences below 1 % mean nothing.
    learning: bool = _setting(
        True,
        "1 learns from the library: words that the vocabulary lacks, and what a query's words are about here",
    )
    # Gain 15 % with 1 (four words of five then occur once), 15 % with 2, 12 % with 3.
    min_occurrences_short: int = _setting(
        2, "occurrences in short documents that a word is learned from", _at_least(1)
    )
    # Of the words of 22 books that could be learned, 84 % of the occurrences become known with 2, 80 % with 3, 75 % with 5.
    min_occurrences_long: int = _setting(
        3, "occurrences in long documents that a word is learned from", _at_least(1)
    )
    # As specified. Gain 14 % with 100; with 2,000 the same.
    short_document_words: int = _setting(500, "documents with fewer words are short", _at_least(0))
    # Half of all sentences lead by more. Gain between 15 % and 16 % whatever the value.
    context_confidence: float = _setting(
        1.0, "lead of a sentence's strongest reef, in z, from which on it outweighs its chunk", _at_least(0)
    )
    # As specified. Gain between 15 % and 16 % for 0.3 to 1.
    context_sentence_weight: float = _setting(
        0.7, "share of such a sentence in the context of its words; the rest is its chunk's", _between(0, 1)
    )
    # Gain 13 % with 12, 15 % with 32, 16 % with all, which would take three times the space.
    reefs_per_observation: int = _setting(
        32, "most reefs kept of a word's context in one document", _between(1, 207)
    )
    # Gain 16 % with 0, 15 % with 0.2, 13 % with 0.4; 0.2 leaves out words that keep any company ("thou", "wider").
    association_min: float = _setting(
        0.2, "how far above a reef's average a word's context must be to be associated", _at_least(0)
    )
    # Gain 16 % with 0.2 (13 reefs a word), 15 % with 0.3 (11), 14 % with 0.4 (9), 10 % with 0.5 (6).
    association_relative: float = _setting(
        0.3, "and how far, as a share of the word's strongest reef", _between(0, 1)
    )
    # Gain 15 % with 8, 15 % with 15, 16 % with 25.
    association_max_reefs: int = _setting(15, "most reefs of a learned word", _between(1, 207))
    # No difference in gain between 3 and 5.
    compound_min_occurrences: int = _setting(
        4, "occurrences, in documents that repeat it, that a compound is learned from", _at_least(2)
    )
    # Gain 15 % with 0.4 and 0.6, 16 % with 0.8 and without compounds. In books, 0.8 leaves names and terms; a likelihood
    # ratio, however high, also leaves "cried morrel" and "ye know".
    compound_min_cohesion: float = _setting(
        0.8, "how inseparable a compound must be: normalised pointwise mutual information", _between(-1, 1)
    )
    observations: str = _setting(
        "keep",
        "what documents say of words: keep, or prune once it is in the sums, which makes deleting slower",
        _one_of("keep", "prune"),
    )

    # Jobs
    wave_bytes: int = _setting(
        64 * MIB, "a large job goes through the stages in waves of this size, bytes", _at_least(1)
    )
    batch_bytes: int = _setting(MIB, "small documents travel together up to this size, bytes", _at_least(1))
    batch_items: int = _setting(256, "most documents that travel together", _at_least(1))
    lease_seconds: float = _setting(
        300.0, "how long a worker holds its claim without a sign of life", _at_least(1)
    )
    reconcile_seconds: float = _setting(
        2.0, "how often a worker looks for work whose message was lost", _at_least(0.05)
    )
    max_attempts: int = _setting(
        3, "an item that kills its worker this often, running alone, has failed", _at_least(1)
    )
    worker_memory_bytes: int = _setting(
        0,
        "memory of its own that a worker process may take, bytes; 0: no limit. A document of 32 MiB takes 2.2 GB",
        lambda value: None if value == 0 or value >= 256 * MIB else f"must be 0 or at least {256 * MIB}",
    )
    item_time_limit: float = _setting(
        600.0,
        "a worker process that works on a document of 32 MiB for longer is killed, seconds. A larger document has more in "
        "proportion, a smaller one less, but a fifth at least",
        _at_least(1),
    )
    task_time_limit: float = _setting(
        3600.0, "a worker process that learns from a wave for longer is killed, seconds", _at_least(10)
    )
    upload_timeout: float = _setting(
        3600.0, "an upload without progress for this long is dropped, seconds", _at_least(1)
    )
    job_retention: float = _setting(
        30 * 86_400.0, "finished jobs are kept for this long, seconds; 0: for ever", _at_least(0)
    )
    max_wait_seconds: float = _setting(60.0, "longest `Prefer: wait` and `?wait=`, seconds", _between(0, 600))

    # Talk
    log_level: str = _setting(
        "info", "debug, info, warning or error", _one_of("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "auto", "json, console, or auto (console in a terminal)", _one_of("auto", "json", "console")
    )

    audit: str = _setting(
        "off",
        "a line of JSON for every search: off, summary (without the query's text), or full (docs/audit.md)",
        _one_of("off", "summary", "full"),
    )
    audit_file: str = _setting("", "file that these lines are added to; empty: stderr", _in_a_folder)

    @classmethod
    def from_environment(cls, **overrides: Any) -> Settings:
        """The settings of this process's environment; `overrides` that are not None win over it.

        Raises SettingsError naming every unknown variable and every value that cannot be used.
        """
        given = {
            k: v for k, v in os.environ.items() if k.startswith(PREFIX) and not k.startswith(f"{PREFIX}TEST_")
        }
        problems = [_unknown(name) for name in given if name[len(PREFIX) :].lower() not in _FIELDS]
        values, mistakes = _parse(given)
        problems += mistakes
        chosen = {name: value for name, value in overrides.items() if value is not None}
        values.update(chosen)
        problems += [
            f"{_quoted(name, _as_given(name, value, chosen, given))}: {message}"
            for name, value in values.items()
            if (check := _FIELDS[name].metadata["check"]) and (message := check(value))
        ]
        if problems:
            raise SettingsError("cannot use these settings:\n  " + "\n  ".join(problems))
        return cls(**values)

    @property
    def database_path(self) -> Path:
        """The file of the SQLite database, absolute."""
        return Path(self.database_url.removeprefix("sqlite:///")).absolute()

    @property
    def data_path(self) -> Path:
        """The folder of the embedded broker, absolute."""
        if self.data_dir:
            return Path(self.data_dir).absolute()
        return self.database_path.with_name(self.database_path.name + "-data")

    def environment(self) -> dict[str, str]:
        """These settings as variables, for a child process. Defaults are left out."""
        return {
            PREFIX + name.upper(): _text(getattr(self, name))
            for name, field in _FIELDS.items()
            if getattr(self, name) != field.default
        }


def shown(name: str, text: str) -> str:
    """The value of a variable as it may be shown: neither a secret nor the password in an address."""
    field = _FIELDS.get(name.removeprefix(PREFIX).lower())
    if field is not None and field.metadata["secret"]:
        return "(hidden)" if text else ""
    return re.sub(r"\S++", _without_password, text)


def _without_password(word: re.Match[str]) -> str:
    before, _, host = word.group().rpartition("@")
    user = re.search(r"://[^:/@]*+:(?=.)", before)
    return f"{before[: user.end()]}***@{host}" if user else word.group()


def describe() -> list[dict[str, str]]:
    """Name, type, default and meaning of every setting, in order, as text."""
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
    """`NAME=value`, as it may be shown."""
    variable = PREFIX + name.upper()
    if _FIELDS[name].metadata["secret"]:
        return variable
    return f"{variable}={shown(variable, value)!r}" if isinstance(value, str) else f"{variable}={value!r}"


def _as_given(name: str, value: Any, chosen: Mapping[str, Any], given: Mapping[str, str]) -> Any:
    """A value as it was written, by whoever calls or in the environment."""
    return value if name in chosen else given[PREFIX + name.upper()]


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, [PREFIX + field.upper() for field in _FIELDS], n=1)
    hint = f"; did you mean {close[0]}?" if close else "; `shoal settings` lists them all"
    return f"{name}: there is no such setting{hint}"


def _parse(given: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Values of the variables that are set, by field name, and what is wrong with those that cannot be read."""
    if not given:
        return {}, []
    # Imported here: with no variable set, as in most runs of the CLI, nothing needs to be parsed.
    import environs

    env = environs.Env(prefix=PREFIX)
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, field in _FIELDS.items():
        variable = PREFIX + name.upper()
        if variable not in given:
            continue
        try:
            values[name] = getattr(env, str(field.type))(name.upper())
        except environs.EnvError:
            kind = {"int": "a whole number", "float": "a number", "bool": "0 or 1"}[str(field.type)]
            mistakes.append(f"{_quoted(name, given[variable])}: must be {kind}")
    return values, mistakes
