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

PREFIX = "SHOAL_"
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Check = Callable[[Any], str | None]


def _at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"must be at least {low:g}"


def _between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else f"must be between {low:g} and {high:g}"


def _percent(value: float) -> str | None:
    # Kept totals count by whole per cent (`reef_totals`).
    is_whole = math.isclose(100 * value, round(100 * value), abs_tol=1e-9)
    return None if 0 <= value <= 1 and is_whole else "must be between 0 and 1, in steps of 0.01"


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
    # A late import: most CLI commands have no keys to parse.
    from shoal.support.api_keys import parse_keys

    try:
        parse_keys(value)
    except ValueError as error:
        return str(error)
    return None


def _path_tags(value: str) -> str | None:
    from shoal.support.folder_patterns import parse_path_tags

    try:
        parse_path_tags(value)
    except ValueError as error:
        return str(error)
    return None


def _presets(value: str) -> str | None:
    # A late import: most CLI commands define no presets.
    from shoal.support.presets import parse_presets

    try:
        parse_presets(value)
    except ValueError as error:
        return str(error)
    return None


def _hosts(value: str) -> str | None:
    # A late import: most installations list no hosts.
    from shoal.support.host_patterns import parse_hosts

    try:
        parse_hosts(value)
    except ValueError as error:
        return str(error)
    return None


def _owner(value: str) -> str | None:
    is_name = 1 <= len(value) <= 200 and value.isprintable() and not value.isspace()
    return None if is_name else "must have 1 to 200 printable characters"


def _http_url(value: str) -> str | None:
    is_url = re.fullmatch(r"https?://[^\s/@?#]++(?:/[^\s?#]*+)?", value)
    return (
        None if is_url or not value else "must be http://HOST:PORT or https://HOST, without a user or a query"
    )


def _file_in_folder(value: str) -> str | None:
    path = Path(value).absolute()
    if value and path.is_dir():
        return "must be a file, and is a folder"
    return None if path.parent.is_dir() else "is in a folder that does not exist"


def _setting(default: Any, meaning: str, check: Check | None = None, *, secret: bool = False) -> Any:
    """Declare a setting. The value of a `secret` is never shown."""
    metadata = {"meaning": meaning, "check": check, "secret": secret}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process. Field `x` is read from `SHOAL_X`."""

    # Locations and processes
    database_url: str = _setting("sqlite:///shoal.db", "database: sqlite:///PATH", _database)
    broker_url: str = _setting(
        "filesystem://", "message broker: filesystem:// (embedded) or redis://HOST:PORT/DB", _broker
    )
    broker_queue: str = _setting(
        "shoal", "name of the queue; installations that share a Redis database need different names", _queue
    )
    data_dir: str = _setting("", "folder of the embedded broker; empty: path of the database + '-data'")
    host: str = _setting("127.0.0.1", "address the API listens on")
    port: int = _setting(8000, "port the API listens on", _between(0, 65535))
    api_keys: str = _setting(
        "",
        "keys of the API, separated by commas: `read:KEY` or `write:KEY`, where KEY may be `sha256:` and the "
        "hash of the key; `shoal new-key` makes a key. Empty: no key is required",
        _keys,
        secret=True,
    )
    api_key: str = _setting("", "key that `shoal upload` and `shoal jobs` send to a service", secret=True)
    allow_anonymous: bool = _setting(
        False, "1 lets the API without keys listen on an address that other machines can reach"
    )
    workers: int = _setting(1, "worker processes that ingest", _between(1, 256))
    api_processes: int = _setting(
        1,
        "processes of the API that `shoal up` runs; two answer about twice as many searches a second on two "
        "cores. Each keeps its own rate limit and its own limits of connections, threads and event streams",
        _between(1, 64),
    )
    api_threads: int = _setting(8, "requests a process of the API answers at the same time", _between(1, 256))
    proxies: int = _setting(
        0,
        "number of trusted reverse proxies in front of the API; their `X-Forwarded-For` gives the client's "
        "address for the rate limit",
        _between(0, 8),
    )

    # Limits of requests
    max_connections: int = _setting(
        512,
        "most open connections; above this, a new connection closes the one that has been idle for longest",
        _between(8, 100_000),
    )
    max_connections_per_address: int = _setting(
        256, "most open connections of one address; 0: no limit (behind a proxy)", _at_least(0)
    )
    rate_limit: int = _setting(
        0,
        "most requests per minute of one key, or of one address where the API has no keys; 0: no limit",
        _at_least(0),
    )
    max_queue_items: int = _setting(
        1_000_000, "documents are refused while this many wait for the workers; 0: no limit", _at_least(0)
    )
    max_queue_bytes: int = _setting(
        16 * GIB,
        "documents are refused while this many bytes of documents wait for the workers; 0: no limit",
        _at_least(0),
    )
    max_event_streams: int = _setting(
        32, "most open event streams of jobs, in addition to `api_threads`", _between(0, 1024)
    )
    event_heartbeat_seconds: float = _setting(
        15.0,
        "longest silence of an event stream, seconds; proxies close connections that are silent for longer",
        _at_least(0.05),
    )
    event_stream_seconds: float = _setting(
        3600.0,
        "an event stream ends after this many seconds; browsers reconnect automatically",
        _at_least(0.1),
    )

    # Limits of input
    max_query_chars: int = _setting(4096, "longest query, characters", _at_least(1))
    # A hundred words take 0.3 s in 100,000 chunks and find nothing that the first few dozen do not.
    max_query_terms: int = _setting(
        64,
        "most distinct words of a query that are searched for, words of phrases included, and most excluded "
        "words; the query's profile uses all words",
        _between(1, 1000),
    )
    search_timeout: float = _setting(
        10.0,
        "a search or another read of a request is stopped after this many seconds; 0: no limit",
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
    max_file_bytes: int = _setting(
        128 * MIB, "largest file that is converted or fetched, such as a PDF, bytes", _at_least(1)
    )
    max_upload_bytes: int = _setting(2 * GIB, "largest upload, bytes", _at_least(1))
    max_upload_items: int = _setting(100_000, "most documents in one upload", _at_least(1))
    max_archive_ratio: float = _setting(
        200.0, "largest ratio of unpacked to packed size, for an archive and each file in it", _at_least(1)
    )
    min_charset_confidence: float = _setting(
        0.8, "lowest confidence at which an encoding other than UTF-8 is accepted, 0 to 1", _between(0, 1)
    )

    # Chunking and scoring
    sensitivity: float = _setting(
        0.5, "depth of the dip in similarity at which a text is cut (lower: more chunks)", _at_least(0)
    )
    smooth_window: int = _setting(
        2, "sentences on each side that smooth the profile of a sentence", _between(0, 50)
    )
    min_chunk_sentences: int = _setting(2, "fewest sentences of a chunk (within its section)", _at_least(1))
    max_chunk_sentences: int = _setting(30, "most sentences of a chunk; 0: no limit", _at_least(0))
    max_chunk_chars: int = _setting(8000, "longest chunk, characters", _at_least(2000))
    # nDCG@10 of reef search, mean of scifact, cranfield, medline and cacm: 0.327 at 0, 0.335 at 0.5, 0.343 at
    # 1.
    heading_weight: float = _setting(
        1.0, "weight of title and headings in the profiles of their chunks, 0 to 1", _between(0, 1)
    )
    reefs_per_chunk: int = _setting(38, "most reefs stored with a chunk (z > 0 only)", _between(1, 207))
    label_threshold: float = _setting(
        0.5,
        "lowest probability at which a reef is a label of a passage, 0 to 1; a passage without labels has "
        "no clear subject",
        _percent,
    )
    # nDCG@10 on scifact, with an earlier build of the data: 0.236 with 10, 0.306 with 20, 0.316 with 38.
    reefs_per_query: int = _setting(38, "most reefs of a query that a search uses", _between(1, 207))
    # benchmarks/hybrid.py: reefs alone gain 16 % with 0.25, 27 % with 0.5, 34 % with 1; with words, 0.5 is
    # best.
    feedback_weight: float = _setting(
        0.5,
        "weight of pseudo-relevance feedback: the profiles of the passages that match a query's words best, "
        "relative to the query's own profile. Needs learning; 0: off",
        _between(0, 10),
    )

    presets: str = _setting(
        "",
        "presets of searches besides the built-in ones, as NAME=LEXICAL,REEF,FIELD_BOOST, separated by "
        "semicolons: `manuals=0.7,0.2,0.1; letters=0.3,0.7,0`. The weights count as they are",
        _presets,
    )

    # Learning. "Gain" is the gain of learning in nDCG@10 of reef search, mean of scifact, cranfield, medline
    # and cacm, as printed by benchmarks/vocabulary_learning.py --vary; differences below 1 % are noise.
    learning: bool = _setting(
        True,
        "1 learns from the library: words that the vocabulary lacks, and what a query's words are about here",
    )
    # Gain 15 % with 1 (four words of five then occur once), 15 % with 2, 12 % with 3.
    min_occurrences_short: int = _setting(
        2, "fewest occurrences in short documents that a word is learned from", _at_least(1)
    )
    # Of all occurrences of learnable words in 22 books, 84 % become known with 2, 80 % with 3, 75 % with 5.
    min_occurrences_long: int = _setting(
        3, "fewest occurrences in long documents that a word is learned from", _at_least(1)
    )
    # As specified. Gain 14 % with 100; with 2,000 the same as with 500.
    short_document_words: int = _setting(500, "documents with fewer words are short", _at_least(0))
    # Half of all sentences lead by more. Gain between 15 % and 16 % at every value.
    context_confidence: float = _setting(
        1.0,
        "lead of a sentence's strongest reef, in z, at which the sentence outweighs its chunk",
        _at_least(0),
    )
    # As specified. Gain between 15 % and 16 % for 0.3 to 1.
    context_sentence_weight: float = _setting(
        0.7,
        "share of such a sentence in the context of its words; the rest comes from its chunk",
        _between(0, 1),
    )
    # Gain 13 % with 12, 15 % with 32, 16 % with all, which would take three times the space.
    reefs_per_observation: int = _setting(
        32, "most reefs stored of a word's context in one document", _between(1, 207)
    )
    # Gain 16 % with 0, 15 % with 0.2, 13 % with 0.4; 0.2 leaves out words that fit any context ("thou",
    # "wider").
    association_min: float = _setting(
        0.2,
        "lowest value of a reef in a word's context, above the reef's average, that associates the word with "
        "the reef",
        _at_least(0),
    )
    # Gain 16 % with 0.2 (13 reefs a word), 15 % with 0.3 (11), 14 % with 0.4 (9), 10 % with 0.5 (6).
    association_relative: float = _setting(
        0.3, "the same limit as a share of the word's strongest reef; both apply", _between(0, 1)
    )
    # Gain 15 % with 8, 15 % with 15, 16 % with 25.
    association_max_reefs: int = _setting(15, "most reefs of a learned word", _between(1, 207))
    # No difference in gain between 3 and 5.
    compound_min_occurrences: int = _setting(
        4, "fewest occurrences, in documents that repeat it, that a compound is learned from", _at_least(2)
    )
    # Gain 15 % with 0.4 and 0.6, 16 % with 0.8 and without compounds. In books, 0.8 keeps names and terms; a
    # likelihood ratio, however high, also keeps "cried morrel" and "ye know".
    compound_min_cohesion: float = _setting(
        0.8, "lowest cohesion of a compound: normalised pointwise mutual information", _between(-1, 1)
    )
    observations: str = _setting(
        "keep",
        "observations of a document: keep, or prune once the sums of evidence include them; prune makes "
        "deleting slower",
        _one_of("keep", "prune"),
    )

    # Notes. Where no other reason is given, 002 (engrams) names the value.
    note_index_bytes: int = _setting(
        256 * MIB,
        "memory of the indexes of notes that a process keeps, bytes, about; those of the owners whose last "
        "search is longest ago are dropped",
        _at_least(0),
    )
    note_owner: str = _setting(
        "default", "whose notes hooks, commands and the MCP server use unless they name an owner", _owner
    )
    note_path_tags: str = _setting(
        "",
        "tags of environments by folder, `PATTERN=TAG` separated by commas, such as `/work/acme/*=acme`. `*` "
        "stands for a part of a name, `**` for any folders, `~` for the home folder of any user",
        _path_tags,
    )
    # Not specified: 15 matches pin a note there, and 11 do not.
    note_pin_matches: int = _setting(
        15, "a note is pinned where a tag holds with which it was matched this often", _at_least(1)
    )
    # Not specified. With 0.3, three equal judgements in a row bring a score from 0 to 0.66.
    note_relevance_smoothing: float = _setting(
        0.3, "weight of the newest judgement in the relevance of a note for a tag", _between(0.01, 1)
    )
    note_relevance_weight: float = _setting(
        0.01, "weight of the relevance of a note, relative to its rank score", _between(0, 1)
    )
    note_filter_min_evals: int = _setting(
        3, "fewest judgements before a note is left out or unpinned", _at_least(1)
    )
    note_filter_score: float = _setting(
        -0.1, "a note whose average relevance is lower is left out", _between(-1, 1)
    )
    note_pin_relevance: float = _setting(
        0.6, "a note whose average relevance is higher is pinned", _between(-1, 1)
    )
    # Not specified ("enough evidence").
    note_pin_min_evals: int = _setting(5, "fewest judgements before relevance pins a note", _at_least(1))
    # Not specified. Below the limit for pins, so that one bad judgement does not unpin.
    note_unpin_relevance: float = _setting(
        0.0, "an automatic pin ends when the average relevance is lower", _between(-1, 1)
    )
    note_merge_similarity: float = _setting(
        0.85, "notes that are at least this similar are proposed as duplicates", _between(0.5, 1)
    )
    note_candidate_similarity: float = _setting(
        0.5, "the chat endpoint judges notes that are at least this similar", _between(0.1, 1)
    )
    # Not specified. What a model is less sure of is proposed to a person or an agent instead.
    note_merge_confidence: float = _setting(
        0.7, "notes are merged if the chat endpoint is at least this confident", _between(0, 1)
    )
    # Not specified.
    note_dedup_passes: int = _setting(
        5, "most passes through the notes that wait to be compared, in one run", _between(1, 100)
    )
    # Not specified. About 3,000 tokens, which a small local model can read.
    note_dedup_chars: int = _setting(
        12_000, "characters of notes in one request to the chat endpoint, about", _at_least(500)
    )

    # Hooks of agents
    server: str = _setting(
        "",
        "address of the service that hooks ask; empty: the one that `shoal up` runs for the database, else "
        "the database itself",
        _http_url,
    )
    # Not specified: tools that only look around or keep lists.
    hook_skip_tools: str = _setting(
        "AskUserQuestion,ExitPlanMode,Glob,Grep,LS,Read,TodoWrite",
        "names of tools, separated by commas, before whose use the hook shows no notes",
    )
    hook_notes: int = _setting(3, "most notes that a hook shows for a prompt or a tool", _between(1, 50))
    # benchmarks/hook_relevance.py: precision 0.22 and recall 0.83 with 0, 0.85 and 0.61 with 0.02.
    hook_min_similarity: float = _setting(
        0.02,
        "lowest similarity of a note to the prompt or the tool at which a hook shows it, 0 to 1",
        _between(0, 1),
    )
    hook_event_days: int = _setting(
        90, "events of hooks are deleted after this many days; 0: never", _at_least(0)
    )

    # Chat endpoint, for steps that need judgement
    llm_url: str = _setting(
        "",
        "OpenAI-compatible chat endpoint, such as `http://127.0.0.1:11434/v1`; transcripts of agents and "
        "notes that may be duplicates are sent there, and nowhere else. Empty: none, and agents submit their "
        "notes",
        _http_url,
    )
    llm_key: str = _setting("", "key of the chat endpoint", secret=True)
    llm_model: str = _setting("", "name of the model that the chat endpoint runs")
    llm_daily_requests: int = _setting(
        200, "most requests to the chat endpoint a day (UTC), of all processes; 0: none", _at_least(0)
    )
    llm_timeout: float = _setting(
        120.0, "longest wait for an answer of the chat endpoint, seconds", _between(0.1, 3600)
    )

    # Conversion of files
    keep_originals: bool = _setting(
        False, "1 keeps the files that documents were converted from, for download and for PDF pages"
    )
    conversion_seconds: float = _setting(
        90.0,
        "longest conversion of a file of 16 MiB, seconds; larger files get proportionally more",
        _between(1, 3600),
    )
    conversion_memory_bytes: int = _setting(
        2 * GIB, "most memory of the process that converts a file, bytes", _at_least(256 * MIB)
    )
    ocr: bool = _setting(
        False, "1 reads PDF pages without text with `tesseract`, if that program is installed"
    )

    # Pages and files of the web
    fetch_urls: str = _setting(
        "",
        "hosts that documents may be fetched from, separated by commas: `example.org`, `*.example.org` for "
        "the names below it, `*` for any; `example.org:8080` for another port than 80 and 443. Empty: "
        "nothing is fetched",
        _hosts,
    )
    fetch_private: str = _setting(
        "",
        "those of these hosts that may have an address of this machine or of a private network, in the same "
        "form; ports do not matter",
        _hosts,
    )
    # A worker that works longer than a fifth of `item_time_limit` on a small document is killed.
    fetch_seconds: float = _setting(
        30.0, "longest fetch of one page or file with all redirects, seconds", _between(0.1, 90)
    )

    # Jobs
    wave_bytes: int = _setting(
        64 * MIB, "size of a wave, bytes; a large job goes through the stages in several waves", _at_least(1)
    )
    batch_bytes: int = _setting(MIB, "largest batch of small documents, bytes", _at_least(1))
    batch_items: int = _setting(256, "most documents in a batch", _at_least(1))
    lease_seconds: float = _setting(
        300.0, "a worker's claim expires after this many seconds without a heartbeat", _at_least(1)
    )
    reconcile_seconds: float = _setting(
        2.0, "interval at which a worker looks for work whose message was lost, seconds", _at_least(0.05)
    )
    max_attempts: int = _setting(
        3,
        "an item fails after it has killed its worker this often while running alone, or after so many "
        "fetches that failed for a time",
        _at_least(1),
    )
    worker_memory_bytes: int = _setting(
        0,
        "most private memory of a worker process, bytes; 0: no limit. A document of 32 MiB takes 2.2 GB",
        lambda value: None if value == 0 or value >= 256 * MIB else f"must be 0 or at least {256 * MIB}",
    )
    item_time_limit: float = _setting(
        600.0,
        "a worker process that works longer on a document of 32 MiB is killed, seconds. The limit is "
        "proportional to the size of the document, but at least a fifth of this",
        _at_least(1),
    )
    task_time_limit: float = _setting(
        3600.0, "a worker process that learns from a wave for longer is killed, seconds", _at_least(10)
    )
    upload_timeout: float = _setting(
        3600.0, "an upload without progress for this many seconds is dropped", _at_least(1)
    )
    job_retention: float = _setting(
        30 * 86_400.0, "finished jobs are deleted after this many seconds; 0: never", _at_least(0)
    )
    max_wait_seconds: float = _setting(60.0, "longest `Prefer: wait` and `?wait=`, seconds", _between(0, 600))

    # Logs
    log_level: str = _setting(
        "info", "debug, info, warning or error", _one_of("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "auto", "json, console, or auto (console in a terminal)", _one_of("auto", "json", "console")
    )

    audit: str = _setting(
        "off",
        "audit log, a line of JSON for every search: off, summary (without the query's text), or full "
        "(docs/audit.md)",
        _one_of("off", "summary", "full"),
    )
    audit_file: str = _setting("", "file that the audit log is appended to; empty: stderr", _file_in_folder)

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
    return re.sub(r"\S++", _without_password, text)


def _without_password(word: re.Match[str]) -> str:
    before, _, host = word.group().rpartition("@")
    user = re.search(r"://[^:/@]*+:(?=.)", before)
    return f"{before[: user.end()]}***@{host}" if user else word.group()


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


def _parse(set_variables: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Parse the variables that are set: values by field name, and a message for each that cannot be
    parsed."""
    if not set_variables:
        return {}, []
    # A late import: most CLI commands run without any variable set.
    import environs

    env = environs.Env(prefix=PREFIX)
    values: dict[str, Any] = {}
    parse_errors: list[str] = []
    for name, field in _FIELDS.items():
        variable = PREFIX + name.upper()
        if variable not in set_variables:
            continue
        try:
            values[name] = getattr(env, str(field.type))(name.upper())
        except environs.EnvError:
            kind = {"int": "a whole number", "float": "a number", "bool": "0 or 1"}[str(field.type)]
            parse_errors.append(f"{_quoted(name, set_variables[variable])}: must be {kind}")
    return values, parse_errors
