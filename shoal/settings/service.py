"""Settings of what runs: the service, its logs, jobs, notes, saved searches and the query log."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import (
    at_least,
    between,
    check_api_keys,
    check_broker_url,
    check_collection_name,
    check_database_url,
    check_file_in_folder,
    check_hosts,
    check_http_url,
    check_interfaces,
    check_optional_database_url,
    check_origins,
    check_owner_name,
    check_path_tags,
    check_queue_name,
    one_of,
    setting,
)
from shoal.support.byte_units import GIB, MIB

MIN_CONNECTIONS = 8
MAX_TOKEN_SECONDS = 30 * 86_400
"""Longest life of a search token that may be set."""


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Where the service runs, what it is connected to, and the limits of requests."""

    database_url: str = setting(
        "sqlite:///shoal.db",
        "database: sqlite:///PATH, or postgresql://USER@HOST:PORT/DATABASE with the schema of the library as "
        "`?schema=NAME` (`shoal` by default; needs the extra `postgres`)",
        check_database_url,
    )
    read_database_url: str = setting(
        "",
        "database that searches read, such as a standby of SHOAL_DATABASE_URL; empty: that one",
        check_optional_database_url,
    )
    index_lag_seconds: float = setting(
        0.0,
        "searches answer 503 while the index of this machine is behind the library for longer, seconds; 0: "
        "never. A library on SQLite has no lag",
        at_least(0),
    )
    broker_url: str = setting(
        "filesystem://",
        "message broker: filesystem:// (embedded), redis://HOST:PORT/DB, or RabbitMQ: "
        "amqp://USER:PASSWORD@HOST:PORT/VHOST; rediss:// and amqps:// are encrypted",
        check_broker_url,
    )
    broker_queue: str = setting(
        "shoal",
        "name of the queue; installations that share a Redis database or a virtual host need different names",
        check_queue_name,
    )
    data_dir: str = setting(
        "",
        "folder of everything beside the database: collections, catalog with the keys, embedded broker, "
        "arriving uploads, with PostgreSQL also the index; empty: path of the database + '-data'",
    )
    collection: str = setting(
        "main",
        "collection that commands, hooks and the MCP server use; the service serves all of them",
        check_collection_name,
    )
    open_collections: int = setting(
        32,
        "most collections besides `main` that a process of the API keeps open; a worker process keeps a "
        "quarter as many. More are open only while more are in use at once. An open one takes about ten "
        "file descriptors",
        between(1, 10_000),
    )
    collection_metrics: int = setting(
        20,
        "most collections that metrics name; others are counted together as `(other)`",
        between(0, 1000),
    )
    host: str = setting("127.0.0.1", "address the API listens on")
    port: int = setting(8000, "port the API listens on", between(0, 65535))
    api_keys: str = setting(
        "",
        "keys of the API, separated by commas: `read:KEY`, `write:KEY` or `admin:KEY`, where KEY may be "
        "`sha256:` and the hash of the key; `shoal new-key` makes a key. Empty: no key is required, unless "
        "`shoal key create` made one",
        check_api_keys,
        secret=True,
    )
    key_cache_seconds: float = setting(
        1.0,
        "seconds for which the API remembers a key of the catalog: a revoked key is refused after that",
        between(0, 60),
    )
    token_seconds: int = setting(
        3600,
        "longest time in seconds between the issue and the expiry of a search token",
        between(1, MAX_TOKEN_SECONDS),
    )
    cors_origins: str = setting(
        "",
        "origins of web pages that may search with search tokens, separated by commas, such as "
        "https://example.org",
        check_origins,
    )
    drop_in: str = setting(
        "",
        "interfaces of other programs that the API answers, separated by commas: `dify`, `openai` "
        "(docs/drop-in-endpoints.md); empty: none",
        check_interfaces,
    )
    uploaded_bytes: int = setting(
        16 * GIB,
        "most bytes of all files that programs upload through the interface `openai`; they stay until "
        "they are deleted",
        at_least(0),
    )
    api_key: str = setting("", "key that `shoal upload` and `shoal jobs` send to a service", secret=True)
    allow_anonymous: bool = setting(
        False, "1 lets the API without keys listen on an address that other machines can reach"
    )
    workers: int = setting(1, "worker processes that ingest", between(1, 256))
    api_processes: int = setting(
        1,
        "processes of the API that `shoal up` runs; two answer about twice as many searches a second on two "
        "cores. Each keeps its own rate limit and its own limits of connections, threads and event streams",
        between(1, 64),
    )
    api_threads: int = setting(8, "requests a process of the API answers at the same time", between(1, 256))
    proxies: int = setting(
        0,
        "number of trusted reverse proxies in front of the API or the MCP server; their `X-Forwarded-For` "
        "gives the client's address for the rate limit",
        between(0, 8),
    )

    # Limits of requests
    max_connections: int = setting(
        512,
        "most open connections; above this, a new connection closes the one that has been idle for longest. "
        "Fewer where the limit of open files is too low for them",
        between(MIN_CONNECTIONS, 100_000),
    )
    max_connections_per_address: int = setting(
        256, "most open connections of one address; 0: no limit (behind a proxy)", at_least(0)
    )
    rate_limit: int = setting(
        0,
        "most requests per minute of one key, or of one address where the API has no keys; 0: no limit",
        at_least(0),
    )
    max_queue_items: int = setting(
        1_000_000, "documents are refused while this many wait for the workers; 0: no limit", at_least(0)
    )
    max_queue_bytes: int = setting(
        16 * GIB,
        "documents are refused while this many bytes of documents wait for the workers; 0: no limit",
        at_least(0),
    )
    max_event_streams: int = setting(
        32, "most open event streams of jobs, in addition to `api_threads`", between(0, 1024)
    )
    event_heartbeat_seconds: float = setting(
        15.0,
        "longest silence of an event stream, seconds; proxies close connections that are silent for longer",
        at_least(0.05),
    )
    event_stream_seconds: float = setting(
        3600.0,
        "an event stream ends after this many seconds; browsers reconnect automatically",
        at_least(0.1),
    )


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


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """Jobs and the workers that process them."""

    wave_bytes: int = setting(
        64 * MIB, "size of a wave, bytes; a large job goes through the stages in several waves", at_least(1)
    )
    batch_bytes: int = setting(MIB, "largest batch of small documents, bytes", at_least(1))
    batch_items: int = setting(256, "most documents in a batch", at_least(1))
    lease_seconds: float = setting(
        300.0, "a worker's claim expires after this many seconds without a heartbeat", at_least(1)
    )
    reconcile_seconds: float = setting(
        2.0, "interval at which a worker looks for work whose message was lost, seconds", at_least(0.05)
    )
    max_attempts: int = setting(
        3,
        "an item fails after it has killed its worker this often while running alone, or after so many "
        "fetches that failed for a time",
        at_least(1),
    )
    worker_memory_bytes: int = setting(
        0,
        "most private memory of a worker process, bytes; 0: no limit. A document of 32 MiB takes 2.2 GB",
        lambda value: None if value == 0 or value >= 256 * MIB else f"must be 0 or at least {256 * MIB}",
    )
    item_time_limit: float = setting(
        600.0,
        "a worker process that works longer on a document of 32 MiB is killed, seconds. The limit is "
        "proportional to the size of the document, but at least a fifth of this",
        at_least(1),
    )
    task_time_limit: float = setting(
        3600.0, "a worker process that learns from a wave for longer is killed, seconds", at_least(10)
    )
    upload_timeout: float = setting(
        3600.0, "an upload without progress for this many seconds is dropped", at_least(1)
    )
    job_retention: float = setting(
        30 * 86_400.0, "finished jobs are deleted after this many seconds; 0: never", at_least(0)
    )
    max_wait_seconds: float = setting(60.0, "longest `Prefer: wait` and `?wait=`, seconds", between(0, 600))


@dataclass(frozen=True, kw_only=True)
class NoteSettings:
    """Notes of agents and the hooks that show them.

    Where no other reason is given, 002 (engrams) names the value.
    """

    note_index_bytes: int = setting(
        256 * MIB,
        "memory of the indexes of notes that a process keeps, bytes, about; those of the owners whose last "
        "search is longest ago are dropped",
        at_least(0),
    )
    note_owner: str = setting(
        "default",
        "whose notes hooks, commands and the MCP server use unless they name an owner",
        check_owner_name,
    )
    note_path_tags: str = setting(
        "",
        "tags of environments by folder, `PATTERN=TAG` separated by commas, such as `/work/acme/*=acme`. `*` "
        "stands for a part of a name, `**` for any folders, `~` for the home folder of any user",
        check_path_tags,
    )
    # Not specified: 15 matches pin a note there, and 11 do not.
    note_pin_matches: int = setting(
        15, "a note is pinned where a tag holds with which it was matched this often", at_least(1)
    )
    # Not specified. With 0.3, three equal judgements in a row bring a score from 0 to 0.66.
    note_relevance_smoothing: float = setting(
        0.3, "weight of the newest judgement in the relevance of a note for a tag", between(0.01, 1)
    )
    note_relevance_weight: float = setting(
        0.01,
        "weight of the relevance of a note; with 0.01, it adds a tenth of what all words of a query add",
        between(0, 1),
    )
    note_filter_min_evals: int = setting(
        3, "fewest judgements before a note is left out or unpinned", at_least(1)
    )
    note_filter_score: float = setting(
        -0.1, "a note whose average relevance is lower is left out", between(-1, 1)
    )
    note_pin_relevance: float = setting(
        0.6, "a note whose average relevance is higher is pinned", between(-1, 1)
    )
    # Not specified ("enough evidence").
    note_pin_min_evals: int = setting(5, "fewest judgements before relevance pins a note", at_least(1))
    # Not specified. Below the limit for pins, so that one bad judgement does not unpin.
    note_unpin_relevance: float = setting(
        0.0, "an automatic pin ends when the average relevance is lower", between(-1, 1)
    )
    note_merge_similarity: float = setting(
        0.85, "notes that are at least this similar are proposed as duplicates", between(0.5, 1)
    )
    note_candidate_similarity: float = setting(
        0.5, "the chat endpoint judges notes that are at least this similar", between(0.1, 1)
    )
    # Not specified. What a model is less sure of is proposed to a person or an agent instead.
    note_merge_confidence: float = setting(
        0.7, "notes are merged if the chat endpoint is at least this confident", between(0, 1)
    )
    # Not specified.
    note_dedup_passes: int = setting(
        5, "most passes through the notes that wait to be compared, in one run", between(1, 100)
    )
    # Not specified. About 3,000 tokens, which a small local model can read.
    note_dedup_chars: int = setting(
        12_000, "characters of notes in one request to the chat endpoint, about", at_least(500)
    )

    # Hooks of agents
    server: str = setting(
        "",
        "address of the service that hooks ask; empty: the one that `shoal up` runs for the database, else "
        "the database itself",
        check_http_url,
    )
    # Not specified: tools that only look around or keep lists.
    hook_skip_tools: str = setting(
        "AskUserQuestion,ExitPlanMode,Glob,Grep,LS,Read,TodoWrite",
        "names of tools, separated by commas, before whose use the hook shows no notes",
    )
    hook_notes: int = setting(3, "most notes that a hook shows for a prompt or a tool", between(1, 50))
    hook_min_similarity: float = setting(
        0.3,
        "lowest similarity of a note to the prompt or the tool at which a hook shows it, 0 to 1",
        between(0, 1),
    )
    hook_start: str = setting(
        "",
        "command that the hook at the start of a session runs in the background where no service answers, "
        "such as `shoal up`; empty: none",
    )
    hook_event_days: int = setting(
        90, "events of hooks are deleted after this many days; 0: never", at_least(0)
    )
    agent_session_days: int = setting(
        180,
        "sessions of agents, what they were shown, and counts of requests to the chat endpoint are deleted "
        "this many days after the last change; 0: never",
        at_least(0),
    )
    note_changes: str = setting(
        "apply",
        "what becomes of a note whose fact a new one changes: apply (the new one replaces it; nothing is "
        "deleted), propose (the answer names it), off",
        one_of("apply", "propose", "off"),
    )
    note_dedup_hours: int = setting(
        0,
        "hours between two jobs that compare the waiting notes of all owners; 0: only on request",
        at_least(0),
    )


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
