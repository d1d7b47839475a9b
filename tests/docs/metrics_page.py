"""Generate docs/metrics.md from a scrape: `python tests/docs/metrics_page.py` writes it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.metrics import Counters
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import Stage
from shoal.models.search import SearchMode
from shoal.settings import Settings
from shoal.storage.index_records import Lag
from shoal_api import create_app
from shoal_api.paths import API

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_scorer import FakeScorer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

INTRODUCTION = """\
# Metrics

All metrics of `GET /metrics`, for queries and alarms. [Monitor it](monitoring.md) says how to scrape them
and when to worry.

There are two more kinds: `process_…` for the processor time, memory and open files of the API process, and
a `…_created` for each metric of that process, with the time when counting began.

"""

PROCESS = """\
## Counted by the API's process

They start at 0 with the process and count nothing of other processes.

"""

LIBRARY = """\
## Read from the database

They are read at the moment of the scrape and include the work of all workers, past and present. Workers
write their counters every ten seconds. A worker that is killed loses up to ten seconds of `shoal_batch_…`
and `shoal_leases_lost_total`, but never of items. If the database cannot be read, only `shoal_database_up`
is there, as 0.

"""

HEAD = "| metric | kind | labels | meaning |\n|---|---|---|---|\n"

OF_PROCESS = (
    "shoal_http_",
    "shoal_key_",
    "shoal_refused_",
    "shoal_search_",
    "shoal_facets_",
    "shoal_query_log_",
    "shoal_collection_request",
    "shoal_rerank_",
)
"""Prefixes of the metrics that the process counts."""
OF_ENUMS = {"mode", "stage", "outcome"}
"""Labels with a fixed set of values. `status` has one too, except for HTTP responses."""


def page() -> str:
    """Return the whole page as Markdown."""
    families = [family for family in _scraped() if family.name.startswith("shoal")]
    families = [family for family in families if not family.name.endswith("_created")]
    of_process = [family for family in families if family.name.startswith(OF_PROCESS)]
    of_library = [family for family in families if family not in of_process]
    return (
        INTRODUCTION
        + PROCESS
        + HEAD
        + "".join(map(_row, of_process))
        + "\n"
        + LIBRARY
        + HEAD
        + "".join(map(_row, of_library))
    )


def _scraped() -> list[Metric]:
    """Return the metrics of a service that did each kind of work, so that all labels have values."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/shoal.db")
        with Engine(settings=settings, scorer=FakeScorer()) as engine:
            client = create_app(settings, engine=engine).test_client()
            client.post(f"{API}/documents", json={"title": "Tides", "content": "The moon pulls at the sea."})
            handlers = handlers_for(engine.database, engine.scorer, settings)
            counters = Counters()
            while batch := claim(engine.database, new_owner(), settings):
                process(batch, engine.database, handlers, settings)
            for stage in Stage:
                counters.add_batch(stage, seconds=0.1, items=1, n_bytes=25)
            counters.write(engine.database)
            for mode in SearchMode:
                client.post(f"{API}/search", json={"query": "sea", "mode": mode.value})
            client.get(f"{API}/facets?facets=tags")
            # Only a library on a server has a lag.
            engine.index_lag = lambda: Lag(0, 0.0)  # type: ignore[method-assign]
            text = client.get("/metrics").get_data(as_text=True)
    return list(text_string_to_metric_families(text))


def _row(family: Metric) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            values.setdefault(label, {})[value] = None
    kind = "info" if name.endswith("_info") else family.type
    labels = "; ".join(_label(family, label, list(known)) for label, known in values.items() if label != "le")
    return f"| `{name}` | {kind} | {labels} | {family.documentation} |\n"


def _label(family: Metric, label: str, values: list[str]) -> str:
    has_fixed_values = label in OF_ENUMS or (label == "status" and not family.name.startswith("shoal_http"))
    return f"`{label}`: {', '.join(values)}" if has_fixed_values else f"`{label}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
