"""Work in the console: uploads that tell how far they are, and jobs that move while one looks at them."""

from __future__ import annotations

import base64
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import PATIENCE_MS, SAMPLES, opened
from playwright.sync_api import Browser, Locator, Page, Request, expect

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.lease import new_owner
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models import ItemStatus

expect.set_options(timeout=PATIENCE_MS)

N_DOCUMENTS, DOCUMENT_BYTES = 40, 100_000
"""Four megabytes: work for some seconds, in so many steps."""
NOTE_BYTES = 3_000_000
SLOW_BYTES_PER_SECOND = 200_000
"""At which an upload of NOTE_BYTES takes long enough to be looked at and canceled."""

WATCH = """() => {
  window.isTheSamePage = true;
  window.fractions = [];
  new MutationObserver(() => {
    const bar = document.querySelector("#job progress");
    if (bar && window.fractions.at(-1) !== bar.value) window.fractions.push(bar.value);
  }).observe(document.body, { childList: true, subtree: true });
}"""


def documents(word: str) -> list[dict[str, str]]:
    """Texts that differ, so that none is a duplicate of another."""
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
    answer = httpx.post(
        f"{address}/api/v1/documents/bulk",
        content=lines.encode(),
        headers=headers,
        timeout=PATIENCE_MS / 1000,
    )
    assert answer.status_code == 202, answer.text
    return int(answer.json()["job"]["id"])


def archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name in names:
            packed.writestr(f"{name}.md", f"# {name}\n\nA note on {name} and the weather over the sea.\n")
    return file.getvalue()


def drop(page: Page, *files: tuple[str, bytes]) -> None:
    """Drop files where they are taken, as from the desktop."""
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


def requested(page: Page) -> list[str]:
    """The addresses that the page asks for from now on."""
    found: list[str] = []

    def note(request: Request) -> None:
        found.append(request.url)

    page.on("request", note)
    return found


def assert_moved(page: Page) -> None:
    """The bar went forward in steps, on one and the same page."""
    assert page.evaluate("window.isTheSamePage") is True
    fractions = page.evaluate("window.fractions")
    between = [fraction for fraction in fractions if 0 < fraction < 1]
    assert len(between) >= 2, fractions
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


def test_a_running_job_moves_by_events_and_without_reload(page: Page, address: str) -> None:
    job = upload(address, documents("Heron"))
    asked = requested(page)
    page.goto(f"{address}/jobs/{job}")
    page.evaluate(WATCH)
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    assert_moved(page)
    assert len([url for url in asked if url.endswith(f"/jobs/{job}/events")]) == 1
    assert not [url for url in asked if "wait=" in url]
    expect(page.locator("#announcer")).to_have_text(f"Job {job}: succeeded")
    expect(page.locator("table.items tbody tr")).to_have_count(N_DOCUMENTS)


def test_a_running_job_moves_by_asking_where_there_are_no_events(browser: Browser, address: str) -> None:
    job = upload(address, documents("Plover"))
    context = opened(browser, 1280, "light")
    page = context.new_page()
    page.route("**/events", lambda route: route.abort())
    asked = requested(page)
    page.goto(f"{address}/jobs/{job}")
    page.evaluate(WATCH)
    expect(page.locator("#job")).to_have_attribute("data-ended", "yes")
    assert_moved(page)
    assert [url for url in asked if f"/jobs/{job}?wait=" in url]
    context.close()


def test_dropped_archives_carry_the_tags_and_each_is_a_job(page: Page, address: str) -> None:
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


def test_what_is_dropped_and_cannot_be_taken_is_named(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    drop(page, ("report.pdf", b"%PDF-1.7"), ("photo.jpg", b"\xff\xd8"))
    expect(page.get_by_role("alert")).to_contain_text("Nothing was sent: report.pdf, photo.jpg")


def test_what_is_passed_over_of_an_upload_is_told_beside_its_job(page: Page, address: str) -> None:
    page.goto(f"{address}/library")
    drop(page, ("tern.md", b"A note on terns."), ("a.pdf", b"%PDF"), ("B.PDF", b"%PDF"), ("c.docx", b"PK"))
    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    told = page.locator("#uploads").get_by_role("status")
    expect(told).to_have_text("3 skipped: 2 .pdf, 1 .docx")
    page.get_by_role("button", name="Dismiss 3 skipped").click()
    expect(page.locator("#uploads")).to_be_hidden()


def test_an_upload_tells_size_and_rate_on_every_page_and_can_be_canceled(page: Page, address: str) -> None:
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
    """The library of the service without a worker, for a test that does its work."""
    with Engine(db_path=idle_folder / "shoal.db") as opened:
        yield opened


def work(engine: Engine, *, lucky: bool = True) -> None:
    """What a worker does with all that waits; without luck it fails."""
    handlers = handlers_for(engine.database, engine.scorer, engine.settings)
    while batch := claim(engine.database, new_owner(), engine.settings):
        if lucky:
            process(batch, engine.database, handlers, engine.settings)
            continue
        with engine.database.write() as connection:
            outcome = Outcome(ItemStatus.failed, error="the disk was full")
            finish_items(connection, [(item, outcome) for item in batch.items], batch.owner)


def test_what_failed_is_tried_again_from_its_page(page: Page, idle_address: str, engine: Engine) -> None:
    job = upload(idle_address, [{"title": "Curlew", "content": "A note on curlews in the marsh."}])
    work(engine, lucky=False)
    page.goto(f"{idle_address}/jobs/{job}")
    expect(page.locator(".failures")).to_contain_text("the disk was full")
    page.get_by_role("button", name=f"Retry the failed items of job {job}").click()
    expect(page.locator("#job .status").first).to_have_text("enqueued")
    work(engine)
    expect(page.locator("#job")).to_have_attribute("data-status", "succeeded")
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    expect(page.locator("table.items").get_by_role("link", name="Curlew")).to_be_visible()


def test_jobs_are_canceled_and_tried_again_in_their_list(
    page: Page, idle_address: str, engine: Engine
) -> None:
    failed = upload(idle_address, [{"title": "Godwit", "content": "A note on godwits in the marsh."}])
    work(engine, lucky=False)
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


def test_what_cannot_be_tried_again_says_why(browser: Browser, idle_address: str, engine: Engine) -> None:
    context = opened(browser, 1280, "light")  # the browser notes a 409
    page = context.new_page()
    job = upload(idle_address, [{"title": "Ruff", "content": "A note on ruffs."}])
    work(engine, lucky=False)
    page.goto(f"{idle_address}/jobs/{job}")
    httpx.post(
        f"{idle_address}/api/v1/jobs/{job}/retry", json={}
    ).raise_for_status()  # someone else was quicker
    work(engine)
    page.get_by_role("button", name=f"Retry the failed items of job {job}").click()
    problem = page.get_by_role("alert")  # only what can be seen has a role
    expect(problem).to_contain_text("has no failed items")
    context.close()


def test_the_keyboard_stays_where_it_is_while_a_job_moves(
    page: Page, idle_address: str, engine: Engine
) -> None:
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
