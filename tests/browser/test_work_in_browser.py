"""Uploads and jobs in the console: progress, live updates, cancel and retry."""

from __future__ import annotations

import base64
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import PATIENCE_MS, SAMPLES, open_window
from playwright.sync_api import Browser, Locator, Page, Request, expect

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import ItemStatus

expect.set_options(timeout=PATIENCE_MS)

N_DOCUMENTS, DOCUMENT_BYTES = 40, 50_000
"""Two megabytes, processed in several steps within some seconds."""
NOTE_BYTES = 3_000_000
SLOW_BYTES_PER_SECOND = 200_000
"""Upload rate at which NOTE_BYTES take long enough to observe and cancel the upload."""

WATCH = """() => {
  window.isSamePage = true;
  window.fractions = [];
  new MutationObserver(() => {
    const bar = document.querySelector("#job progress");
    if (bar && window.fractions.at(-1) !== bar.value) window.fractions.push(bar.value);
  }).observe(document.body, { childList: true, subtree: true });
}"""


def documents(word: str) -> list[dict[str, str]]:
    """Return different texts, so that none is a duplicate."""
    sample = "\n\n".join(path.read_text() for path in sorted(SAMPLES.glob("*.md")))
    return [
        {
            "title": f"{word} {i}",
            "format": "markdown",
            "content": f"{word} number {i}.\n\n" + (sample * 3)[: DOCUMENT_BYTES + i],
        }
        for i in range(N_DOCUMENTS)
    ]


def upload(address: str, records: list[dict[str, str]]) -> int:
    lines = "\n".join(httpx.Response(200, json=record).text for record in records)
    headers = {"Content-Type": "application/x-ndjson"}
    response = httpx.post(
        f"{address}/api/v1/documents/bulk",
        content=lines.encode(),
        headers=headers,
        timeout=PATIENCE_MS / 1000,
    )
    assert response.status_code == 202, response.text
    return int(response.json()["job"]["id"])


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name in names:
            packed.writestr(f"{name}.md", f"# {name}\n\nA note on {name} and the weather over the sea.\n")
    return file.getvalue()


def drop(page: Page, *files: tuple[str, bytes]) -> None:
    """Drop files on the upload area, as from the desktop."""
    transfer = page.evaluate_handle(
        """(files) => {
          const transfer = new DataTransfer();
          const bytes = (packed) => Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
          for (const [name, packed] of files) transfer.items.add(new File([bytes(packed)], name));
          return transfer;
        }""",
        [[name, base64.b64encode(content).decode()] for name, content in files],
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})


def record_requests(page: Page) -> list[str]:
    """Return a list to which the URLs of later requests of the page are added."""
    urls: list[str] = []

    def record(request: Request) -> None:
        urls.append(request.url)

    page.on("request", record)
    return urls


def assert_moved(page: Page) -> None:
    """Assert that the progress bar advanced in steps without a page reload."""
    assert page.evaluate("window.isSamePage") is True
    fractions = page.evaluate("window.fractions")
    between = [fraction for fraction in fractions if 0 < fraction < 1]
    assert len(between) >= 2, fractions
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


def test_running_job_is_updated_by_events_without_reload(page: Page, address: str) -> None:
    job = upload(address, documents("Heron"))
    urls = record_requests(page)
    page.goto(f"{address}/jobs/{job}")
    page.evaluate(WATCH)
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    assert_moved(page)
    assert len([url for url in urls if url.endswith(f"/jobs/{job}/events")]) == 1
    assert not [url for url in urls if "wait=" in url]
    expect(page.locator("#announcer")).to_have_text(f"Job {job}: succeeded")
    expect(page.locator("table.items tbody tr")).to_have_count(N_DOCUMENTS)


def test_running_job_is_updated_by_polling_without_events(browser: Browser, address: str) -> None:
    job = upload(address, documents("Plover"))
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.route("**/events", lambda route: route.abort())
    urls = record_requests(page)
    page.goto(f"{address}/jobs/{job}")
    page.evaluate(WATCH)
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    assert_moved(page)
    assert [url for url in urls if f"/jobs/{job}?wait=" in url]
    context.close()


def test_each_dropped_archive_is_a_job_with_the_tags(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    page.get_by_label("Tags for all files").fill("packed, second")
    drop(page, ("birds.zip", archive("Avocet", "Dunlin")), ("boats.zip", archive("Ketch")))
    page.wait_for_url(re.compile(r"/jobs$"))
    expect(page.locator("#jobs .status.succeeded").nth(1)).to_be_visible()
    expect(page.locator("#jobs[data-refresh]")).to_have_count(0)
    page.goto(f"{address}/library?tag=packed")
    expect(page.locator("table.list tbody tr")).to_have_count(3)
    page.goto(f"{address}/library?tag=second")
    expect(page.locator("table.list tbody tr")).to_have_count(3)


def test_dropped_files_of_unsupported_types_are_named(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    drop(page, ("old.pages", b"\xd0\xcf\x11\xe0"), ("photo.jpg", b"\xff\xd8"), ("notes", b"no extension"))
    expect(page.get_by_role("alert")).to_contain_text(
        "Nothing was sent: old.pages, photo.jpg, notes. Shoal reads"
    )


def test_dropped_files_of_many_kinds_are_stored(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    html = b"<html><head><title>Otters</title></head><body><p>An otter swims in the river.</p></body></html>"
    drop(page, ("otter.HTML", html), ("trees.csv", b"tree,height\noak,20\n"), ("tide.py", b"# Of the tide\n"))
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    expect(page.locator("main tbody .status.succeeded")).to_have_count(3)


def test_skipped_files_of_an_upload_are_shown_on_its_job_page(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    drop(page, ("tern.md", b"A note on terns."), ("a.gif", b"GIF8"), ("B.GIF", b"GIF8"), ("c.mp3", b"ID3"))
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    status = page.locator("#uploads").get_by_role("status")
    expect(status).to_have_text("3 skipped: 2 .gif, 1 .mp3")
    page.get_by_role("button", name="Dismiss 3 skipped").click()
    expect(page.locator("#uploads")).to_be_hidden()


def test_upload_shows_size_and_rate_on_every_page_and_can_be_canceled(page: Page, address: str) -> None:
    n_jobs = httpx.get(f"{address}/api/v1/jobs").json()["total"]
    page.goto(f"{address}/library")
    network = page.context.new_cdp_session(page)
    slow = {
        "offline": False,
        "latency": 0,
        "downloadThroughput": -1,
        "uploadThroughput": SLOW_BYTES_PER_SECOND,
    }
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    drop(page, ("long.txt", b"A long note. " * (NOTE_BYTES // 13)))
    line = page.locator("#uploads .upload")
    expect(line).to_contain_text("long.txt")
    expect(line).to_contain_text(re.compile(r"\d+ % of 2\.9 MiB, .*iB/s"))
    page.locator("body > header").get_by_role("link", name="Vocabulary").click()
    expect(page.get_by_role("heading", name="Learned words")).to_be_visible()
    expect(line).to_be_visible()
    line.get_by_role("button", name="Cancel").click()
    expect(line).to_contain_text("canceled; nothing of it was stored")
    line.get_by_role("button", name="Dismiss").click()
    expect(line).to_have_count(0)
    expect(page.locator("#uploads")).to_be_hidden()
    assert httpx.get(f"{address}/api/v1/jobs").json()["total"] == n_jobs


@pytest.fixture
def engine(idle_address: str, idle_folder: Path) -> Iterator[Engine]:
    """Engine on the library of the service without a worker."""
    with Engine(db_path=idle_folder / "shoal.db") as engine:
        yield engine


def work(engine: Engine, *, succeed: bool = True) -> None:
    """Process all waiting items as a worker does; without `succeed`, let them fail."""
    handlers = handlers_for(engine.database, engine.scorer, engine.settings)
    while batch := claim(engine.database, new_owner(), engine.settings):
        if succeed:
            process(batch, engine.database, handlers, engine.settings)
            continue
        with engine.database.write() as transaction:
            outcome = Outcome(ItemStatus.failed, error="the disk was full")
            finish_items(transaction, [(item, outcome) for item in batch.items], batch.owner)


def test_failed_items_are_retried_on_the_job_page(page: Page, idle_address: str, engine: Engine) -> None:
    job = upload(idle_address, [{"title": "Curlew", "content": "A note on curlews in the marsh."}])
    work(engine, succeed=False)
    page.goto(f"{idle_address}/jobs/{job}")
    expect(page.locator(".failures")).to_contain_text("the disk was full")
    page.get_by_role("button", name=f"Retry the failed items of job {job}").click()
    expect(page.locator("#job .status").first).to_have_text("enqueued")
    work(engine)
    expect(page.locator("#job")).to_have_attribute("data-status", "succeeded")
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    expect(page.locator("table.items").get_by_role("link", name="Curlew")).to_be_visible()


def test_jobs_are_canceled_and_retried_in_the_job_list(page: Page, idle_address: str, engine: Engine) -> None:
    failed = upload(idle_address, [{"title": "Godwit", "content": "A note on godwits in the marsh."}])
    work(engine, succeed=False)
    waiting = upload(idle_address, [{"title": "Whimbrel", "content": "A note on whimbrels in the marsh."}])
    page.goto(f"{idle_address}/jobs")

    def row(job: int) -> Locator:
        return page.locator("#jobs tbody tr").filter(
            has=page.get_by_role("link", name=f"{job} ingest", exact=True)
        )

    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name=f"Cancel job {waiting}").click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name=f"Cancel job {waiting}").click()
    expect(row(waiting).locator(".status")).to_have_text("canceled")
    page.get_by_role("button", name=f"Retry the failed items of job {failed}").click()
    expect(row(failed).locator(".status")).to_have_text("enqueued")
    work(engine)
    expect(row(failed).locator(".status")).to_have_text("succeeded")


def test_retry_of_a_job_without_failed_items_shows_the_reason(
    browser: Browser, idle_address: str, engine: Engine
) -> None:
    context = open_window(browser, 1280, "light")  # without `page`, because the browser reports the 409
    page = context.new_page()
    job = upload(idle_address, [{"title": "Ruff", "content": "A note on ruffs."}])
    work(engine, succeed=False)
    page.goto(f"{idle_address}/jobs/{job}")
    # Another client retries first.
    httpx.post(f"{idle_address}/api/v1/jobs/{job}/retry", json={}).raise_for_status()
    work(engine)
    page.get_by_role("button", name=f"Retry the failed items of job {job}").click()
    problem = page.get_by_role("alert")  # only visible elements have a role
    expect(problem).to_contain_text("has no failed or canceled items")
    context.close()


def test_focus_stays_while_a_job_is_updated(page: Page, idle_address: str, engine: Engine) -> None:
    job = upload(idle_address, [{"title": f"Knot {i}", "content": f"Note {i} on knots."} for i in range(3)])
    page.goto(f"{idle_address}/jobs/{job}")
    cancel = page.get_by_role("button", name=f"Cancel job {job}")
    cancel.focus()
    status = page.locator("#job select[name=items]")
    status.select_option("failed")
    cancel.focus()
    page.evaluate("document.querySelector('#job').dataset.first = 'yes'")
    batch = claim(engine.database, new_owner(), engine.settings)
    assert batch is not None
    expect(page.locator("#job[data-first]")).to_have_count(0)
    expect(cancel).to_be_focused()
    expect(status).to_have_value("failed")
    process(
        batch, engine.database, handlers_for(engine.database, engine.scorer, engine.settings), engine.settings
    )
    work(engine)
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
