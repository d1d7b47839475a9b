"""Attachments of mails in records, jobs and pages, with links both ways."""

from __future__ import annotations

import io
from email.message import EmailMessage

from flask.testing import FlaskClient
from surface import API, FLOWER, VOLCANO, Worker

MULTIPART = "multipart/form-data"


def mail() -> bytes:
    message = EmailMessage()
    message["From"] = "Ann <ann@example.org>"
    message["Subject"] = "Plans"
    message.set_content(VOLCANO)
    for name, data in (
        ("flowers.txt", FLOWER.encode()),
        ("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
    ):
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def stored(client: FlaskClient, worker: Worker) -> tuple[int, int, int]:
    """Store a mail; return the ids of its job, of the mail and of its attachment."""
    response = client.post(
        f"{API}/documents/bulk", data={"files": (mail_file(), "plans.eml")}, content_type=MULTIPART
    )
    job_id = response.get_json()["job"]["id"]
    worker.work()
    by_title = {each["title"]: each["id"] for each in client.get(f"{API}/documents").get_json()["documents"]}
    return job_id, by_title["Plans"], by_title["Flowers"]


def mail_file() -> io.BytesIO:
    return io.BytesIO(mail())


def test_records_and_pages_link_both_ways(client: FlaskClient, worker: Worker) -> None:
    _, plans, flowers = stored(client, worker)
    of_mail = client.get(f"{API}/documents/{plans}").get_json()
    of_attachment = client.get(f"{API}/documents/{flowers}").get_json()
    assert [each["id"] for each in of_mail["attachments"]] == [flowers]
    assert of_mail["parents"] == []
    assert [(each["id"], each["title"]) for each in of_attachment["parents"]] == [(plans, "Plans")]
    page = client.get(f"/documents/{plans}").get_data(as_text=True)
    assert f'1 attachment: <a href="/documents/{flowers}">Flowers</a>' in page
    page = client.get(f"/documents/{flowers}").get_data(as_text=True)
    assert f'attached to <a href="/documents/{plans}">Plans</a>' in page


def test_a_job_names_attachments_that_could_not_be_read(client: FlaskClient, worker: Worker) -> None:
    job_id, _, _ = stored(client, worker)
    job = client.get(f"{API}/jobs/{job_id}").get_json()
    assert (job["status"], job["progress"]["total"], job["progress"]["failed"]) == ("partial", 3, 1)
    items = client.get(f"{API}/jobs/{job_id}/items").get_json()["items"]
    assert [(each["title"], each["attached_to"], each["error_code"]) for each in items] == [
        ("Plans", None, None), ("Flowers", 1, None), ("old.doc", 1, "file_missing_extra"),
    ]  # fmt: skip
    assert items[2]["error"] == "this is a .doc file; set SHOAL_OFFICE or save it as .docx"
    assert "attached to no. 1" in client.get(f"/jobs/{job_id}").get_data(as_text=True)


def test_a_deleted_mail_takes_its_attachments_along(client: FlaskClient, worker: Worker) -> None:
    _, plans, _ = stored(client, worker)
    assert client.delete(f"{API}/documents/{plans}").status_code == 204
    assert client.get(f"{API}/documents").get_json()["total"] == 0
