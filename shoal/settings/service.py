"""Settings of the service."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import (
    at_least,
    between,
    check_api_keys,
    check_broker_url,
    check_collection_name,
    check_database_url,
    check_optional_database_url,
    check_queue_name,
)
from shoal.settings.declaration import setting
from shoal.support.byte_units import GIB

MIN_CONNECTIONS = 8


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
