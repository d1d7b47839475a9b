"""Metrics of the queue, of processing, searches and the database; counters never decrease."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path

import flask
import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker

from shoal.engine import Engine
from shoal.formats.drafts import make_draft
from shoal.jobs import in_process
from shoal.jobs.queue import claims, transitions
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.metrics import LEASES_LOST, Counters
from shoal.jobs.queue.recovery import reconcile
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal_api import metrics


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, job_retention=86_400.0)


def scrape(client: FlaskClient) -> dict[str, float]:
    """Return the value of every sample by its name with labels, `name{label=value}`."""
    response = client.get("/metrics")
    assert response.status_code == 200
    samples = {}
    for family in text_string_to_metric_families(response.get_data(as_text=True)):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


def upload(client: FlaskClient, *contents: str) -> None:
    lines = "\n".join(flask.json.dumps({"content": content}) for content in contents)
    response = client.post(f"{API}/documents/bulk", data=lines, content_type="application/x-ndjson")
    assert response.status_code == 202


def test_waiting_and_processed_items_are_counted(client: FlaskClient, worker: Worker) -> None:
    upload(client, VOLCANO, FLOWER, VOLCANO)
    before = scrape(client)
    assert before["shoal_items_waiting{status=enqueued}"] == 3
    assert before["shoal_items_waiting_bytes{status=enqueued}"] == 2 * len(VOLCANO) + len(FLOWER)
    assert before["shoal_items_waiting{status=scoring}"] == 0
    assert before["shoal_jobs{status=enqueued}"] == 1
    assert before["shoal_oldest_job_seconds"] >= 0
    assert before["shoal_items_total{status=succeeded}"] == 0
    worker.work()
    after = scrape(client)
    assert after["shoal_items_waiting{status=enqueued}"] == 0
    assert after["shoal_oldest_job_seconds"] == 0
    assert after["shoal_items_total{status=succeeded}"] == 2
    assert after["shoal_items_total{status=duplicate}"] == 1
    assert after["shoal_items_bytes_total"] == 2 * len(VOLCANO) + len(FLOWER)
    assert after["shoal_jobs_ended_total{status=succeeded}"] == 1
    assert (after["shoal_documents"], after["shoal_content_bytes"]) == (2, len(VOLCANO) + len(FLOWER))
    assert after["shoal_chunks"] >= 2
    assert after["shoal_database_up"] == 1
    assert after["shoal_database_bytes"] > 0
    assert after["shoal_disk_free_bytes"] > 0


def test_typing_errors_are_counted(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    for query, typos in (("lavaa", "auto"), ("lavaa", "off"), ("lava", "auto")):
        body = {"query": query, "typos": typos}
        assert client.post(f"{API}/search", json=body).status_code == 200
    samples = scrape(client)
    assert samples["shoal_search_near_words_total{kind=typo}"] == 1
    assert samples["shoal_search_near_words_total{kind=prefix}"] == 0


def test_searches_are_counted_by_mode(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    for mode in ("reef", "reef", "lexical"):
        assert client.post(f"{API}/search", json={"query": "lava", "mode": mode}).status_code == 200
    assert client.get(f"{API}/search?q=lava&mode=reef").status_code == 200
    assert client.post(f"{API}/search", json={"query": ""}).status_code == 422
    samples = scrape(client)
    assert samples["shoal_search_seconds_count{mode=reef}"] == 3
    assert samples["shoal_search_seconds_count{mode=lexical}"] == 1
    assert samples["shoal_search_seconds_bucket{le=+Inf,mode=reef}"] == 3


def test_api_metrics_include_the_counters_of_workers(client: FlaskClient, engine: Engine) -> None:
    first, second = Counters(), Counters()
    for counters, seconds in ((first, 0.01), (first, 0.2), (second, 0.2), (second, 1000.0)):
        counters.add_batch(Stage.score, seconds=seconds, items=3, n_bytes=100)
    first.add(LEASES_LOST, "", 2)
    for counters in (first, second, first):
        counters.write(engine.database)
    samples = scrape(client)
    buckets = {
        bound: samples[f"shoal_batch_seconds_bucket{{le={bound},stage=score}}"]
        for bound in ("0.05", "0.1", "0.25", "300.0", "+Inf")
    }
    assert buckets == {"0.05": 1, "0.1": 1, "0.25": 3, "300.0": 3, "+Inf": 4}
    assert samples["shoal_batch_seconds_count{stage=score}"] == 4
    assert samples["shoal_batch_seconds_sum{stage=score}"] == pytest.approx(1000.41)
    assert samples["shoal_batch_items_total{stage=score}"] == 12
    assert samples["shoal_batch_bytes_total{stage=score}"] == 400
    assert samples["shoal_leases_lost_total"] == 2


def test_counters_that_could_not_be_written_are_written_later(client: FlaskClient, engine: Engine) -> None:
    counters = Counters()
    counters.add(LEASES_LOST, "", 3)
    with engine.database.write() as transaction:
        transaction.execute("ALTER TABLE counters RENAME TO hidden")
    with pytest.raises(Exception, match="shoal migrate"):
        counters.write(engine.database)
    with engine.database.write() as transaction:
        transaction.execute("ALTER TABLE hidden RENAME TO counters")
    counters.write(engine.database)
    counters.write(engine.database)
    assert scrape(client)["shoal_leases_lost_total"] == 3


def test_counters_do_not_decrease_when_old_jobs_are_removed(
    client: FlaskClient, worker: Worker, engine: Engine, settings: Settings
) -> None:
    upload(client, VOLCANO, FLOWER, VOLCANO)
    worker.work()
    before = {
        name: value for name, value in scrape(client).items() if "_total" in name and "http" not in name
    }
    reconcile(engine.database, settings, now=time.time() + 2 * settings.job_retention)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0
    after = scrape(client)
    for name, value in before.items():
        if name.startswith("shoal_"):
            assert after[name] == value, name
    upload(client, LAW)
    worker.work()
    assert scrape(client)["shoal_items_total{status=succeeded}"] == 3


def test_counters_do_not_decrease_when_items_are_retried(
    client: FlaskClient, worker: Worker, engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(FakeScorer, "analyze", lambda *_, **__: 1 / 0)
        upload(client, VOLCANO, FLOWER)
        worker.work()
    before = scrape(client)
    assert before["shoal_items_total{status=failed}"] == 2
    transitions.retry(engine.database, settings, 1)
    between = scrape(client)
    assert between["shoal_items_total{status=failed}"] == 2
    assert between["shoal_items_bytes_total"] == before["shoal_items_bytes_total"]
    assert between["shoal_items_waiting{status=enqueued}"] == 2
    worker.work()
    assert scrape(client)["shoal_items_total{status=succeeded}"] == 2


def test_age_of_the_queue_is_that_of_jobs_that_no_worker_has_begun(
    client: FlaskClient, engine: Engine, worker: Worker
) -> None:
    assert scrape(client)["shoal_queue_age_seconds"] == 0
    upload(client, VOLCANO)
    with engine.database.write() as transaction:
        transaction.execute("UPDATE jobs SET created_at = '2026-01-31T00:00:00.000Z'")
    assert scrape(client)["shoal_queue_age_seconds"] > 3600
    with engine.database.write() as transaction:
        transaction.execute("UPDATE jobs SET status = 'processing'")
    between = scrape(client)
    assert between["shoal_queue_age_seconds"] == 0
    assert between["shoal_oldest_job_seconds"] > 3600
    worker.work()
    assert scrape(client)["shoal_queue_age_seconds"] == 0


def test_embedded_jobs_of_a_command_are_not_counted(client: FlaskClient, engine: Engine) -> None:
    command = in_process.open_upload(engine.database, engine.settings).begin()
    command.add(make_draft(content=VOLCANO, settings=engine.settings))
    assert scrape(client)["shoal_uploads_receiving"] == 0
    job_id = command.finish()
    samples = scrape(client)
    assert samples["shoal_items_waiting{status=enqueued}"] == 0
    assert samples["shoal_oldest_job_seconds"] == 0
    in_process.drop(engine.database, job_id)
    assert engine.ingest(content=FLOWER).error is None
    samples = scrape(client)
    assert samples["shoal_items_total{status=succeeded}"] == 0
    assert samples["shoal_documents"] == 1


def test_stale_chunks_are_counted(client: FlaskClient, store: Store, engine: Engine) -> None:
    store(VOLCANO)
    assert scrape(client)["shoal_stale_chunks"] == 0
    with engine.database.write() as transaction:
        transaction.execute(
            """INSERT INTO vocabulary_versions
               SELECT 1, 'now', NULL, NULL, 0, data_checksum FROM chunks LIMIT 1"""
        )
        stale = "INSERT INTO stale_documents SELECT id, n_chunks, :chunks FROM documents"
        transaction.execute(stale, {"chunks": b"\xff"})
    samples = scrape(client)
    assert samples["shoal_vocabulary_version"] == 1
    assert samples["shoal_stale_chunks"] == samples["shoal_chunks"] > 0


def test_files_of_the_index_are_measured(client: FlaskClient, store: Store, engine: Engine) -> None:
    assert scrape(client)["shoal_index_bytes"] == 0
    store(VOLCANO)
    files = engine.database.path.with_name(f"{engine.database.path.name}-index").iterdir()
    assert scrape(client)["shoal_index_bytes"] == sum(path.stat().st_size for path in files) > 0


def test_unavailable_database_removes_only_its_own_metrics(client: FlaskClient, engine: Engine) -> None:
    client.get(f"{API}/documents")
    with engine.database.write() as transaction:
        transaction.execute("ALTER TABLE library_totals RENAME TO hidden")
    samples = scrape(client)
    with engine.database.write() as transaction:
        transaction.execute("ALTER TABLE hidden RENAME TO library_totals")
    assert samples["shoal_database_up"] == 0
    assert "shoal_documents" not in samples
    assert samples[f"shoal_http_requests_total{{method=GET,route={API}/documents,status=200}}"] == 1


def test_claimed_item_is_counted_as_scoring(client: FlaskClient, engine: Engine, settings: Settings) -> None:
    upload(client, VOLCANO)
    assert claim(engine.database, claims.new_owner(), settings) is not None
    samples = scrape(client)
    assert samples["shoal_items_waiting{status=scoring}"] == 1
    assert samples["shoal_jobs{status=processing}"] == 1


def test_free_space_is_that_of_the_data_folder_where_the_database_is_on_a_server(tmp_path: Path) -> None:
    settings = Settings(database_url="postgresql://host/db", data_dir=str(tmp_path / "not" / "yet"))
    assert metrics.free_bytes(settings) == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
