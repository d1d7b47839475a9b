"""Mailboxes of IMAP servers as sources. The server stands in this process."""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from scripted_imap import ScriptedMailbox
from scripted_store import stored

from shoal import Engine
from shoal.conversion.converted import largest_file
from shoal.errors import DocumentTooLargeError, InvalidFieldError, ObjectGoneError, SourceError
from shoal.models.sources import RunStatus
from shoal.settings import Settings
from shoal.sources import mailboxes
from shoal.sources.mailboxes import MailboxStore
from shoal.sources.stores import Place

TEXTS = ("Lava rose in the volcano.", "The whale swims in the sea.", "The bee finds nectar in a flower.")
LOGIN = {"username": "anna"}
SECRETS = {"password": "env:SOURCE_SECRET_MAIL"}


def mail(text: str, attachment: str = "") -> bytes:
    message = EmailMessage()
    message["Subject"] = text.split()[1].title()
    message["From"] = "anna@example.org"
    message["Date"] = "Tue, 14 Nov 2023 22:13:20 +0000"
    message.set_content(text)
    if attachment:
        message.add_attachment(attachment, filename="notes.txt")
    return message.as_bytes()


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedMailbox]:
    monkeypatch.setenv("SOURCE_SECRET_MAIL", "the password")
    made = ScriptedMailbox({5 + 3 * i: mail(text) for i, text in enumerate(TEXTS)})
    yield made
    made.close()


@pytest.fixture
def private(settings: Settings) -> Settings:
    """Settings that allow mailboxes of this machine."""
    return dataclasses.replace(
        settings, sources="imap://127.0.0.1 imap://localhost", fetch_private="127.0.0.1, localhost"
    )


@pytest.fixture
def engine(private: Settings, migrated_file: Path, mailbox: ScriptedMailbox) -> Iterator[Engine]:
    put_empty_library(migrated_file, private)
    allowed = dataclasses.replace(private, sources=f"imap://127.0.0.1:{mailbox.port}")
    with Engine(settings=allowed, scorer=FakeScorer()) as opened:
        yield opened


def url(mailbox: ScriptedMailbox) -> str:
    return f"imap://127.0.0.1:{mailbox.port}/INBOX"


def store(mailbox: ScriptedMailbox, settings: Settings, password: str = "the password") -> MailboxStore:
    return MailboxStore(Place(url(mailbox), LOGIN, {"password": password}), settings)


def test_mails_and_their_attachments_become_documents(engine: Engine, mailbox: ScriptedMailbox) -> None:
    mailbox.mails[20] = mail("The judge read the law.", attachment="The tide follows the moon.")
    engine.sources.add("mails", url(mailbox), options=LOGIN, secrets=SECRETS)
    assert [each.title for each in engine.sources.preview("mails").first][:2] == ["Rose", "Whale"]
    run = engine.sources.run("mails")
    assert (run.status, run.n_new, run.n_failed) == (RunStatus.succeeded, 4, 0)
    contents = stored(engine)
    path = f"imap://anna@127.0.0.1:{mailbox.port}/INBOX/17-20.eml"
    assert "The judge read the law." in contents[path]
    assert engine.documents.list().total == 5
    assert not any(command.startswith(("SELECT", "STORE")) for command in mailbox.commands)
    assert "the password" not in json.dumps([*contents.items(), *mailbox.commands])
    assert engine.sources.objects("mails").objects[1].source_path == path
    del mailbox.mails[20]
    assert engine.sources.run("mails").n_removed == 1
    assert engine.documents.list().total == 3, "the attachment goes with its mail"


def test_an_unchanged_mailbox_is_not_read(engine: Engine, mailbox: ScriptedMailbox) -> None:
    engine.sources.add("mails", url(mailbox), options=LOGIN, secrets=SECRETS)
    engine.sources.run("mails")
    mailbox.commands.clear()
    mailbox.mails[99] = mail("The tide is high.")
    run = engine.sources.run("mails")
    assert run.n_new == 1
    assert [each for each in mailbox.commands if "BODY" in each] == [
        f"UID FETCH 99 (BODY.PEEK[]<0.{largest_file(engine.settings) + 1}>)"
    ]


def test_another_uidvalidity_keeps_documents(engine: Engine, mailbox: ScriptedMailbox) -> None:
    engine.sources.add("mails", url(mailbox), options=LOGIN, secrets=SECRETS)
    engine.sources.run("mails")
    ids = {each.id for each in engine.documents.list().documents}
    mailbox.validity = 18
    mailbox.mails = dict(enumerate(mailbox.mails.values(), start=1))
    run = engine.sources.run("mails")
    assert (run.n_moved, run.n_new, run.n_removed) == (3, 0, 0)
    assert run.n_bytes == sum(map(len, mailbox.mails.values())), "every mail is read again"
    assert {each.id for each in engine.documents.list().documents} == ids


def test_a_listing_goes_on_after_mails_were_deleted(
    mailbox: ScriptedMailbox, private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailboxes, "PAGE_MAILS", 4)
    mailbox.mails = {uid: b"x" * uid for uid in range(2, 40, 2)}
    first = store(mailbox, private).list(None)
    assert [(each.name, each.version, each.n_bytes) for each in first.objects] == [
        (f"17-{uid}.eml", str(uid), uid) for uid in (2, 4, 6, 8)
    ]
    for uid in (4, 8, 10):
        del mailbox.mails[uid]
    mailbox.mails[41] = b"new"
    names, place = [], first.place
    while place is not None:
        page = store(mailbox, private).list(place)
        names += [each.name for each in page.objects]
        place = page.place
    assert names == [f"17-{uid}.eml" for uid in (*range(12, 40, 2), 41)]


def test_a_listing_of_a_mailbox_that_was_made_anew_fails(
    mailbox: ScriptedMailbox, private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailboxes, "PAGE_MAILS", 2)
    opened = store(mailbox, private)
    page = opened.list(None)
    opened.close()
    mailbox.validity = 18
    with pytest.raises(SourceError, match="made anew") as failure:
        store(mailbox, private).list(page.place)
    assert not failure.value.is_temporary
    with pytest.raises(ObjectGoneError):
        store(mailbox, private).read("17-5.eml", 1000)


def test_mails_that_are_gone_or_too_large_are_errors_of_objects(
    mailbox: ScriptedMailbox, private: Settings
) -> None:
    opened = store(mailbox, private)
    with pytest.raises(ObjectGoneError):
        opened.read("17-6.eml", 1000)
    with pytest.raises(ObjectGoneError):
        opened.read("../17-5.eml", 1000)
    size = len(mailbox.mails[5])
    assert opened.read("17-5.eml", size) == mailbox.mails[5]
    with pytest.raises(DocumentTooLargeError):
        opened.read("17-5.eml", size - 1)


def test_a_broken_connection_is_opened_again(mailbox: ScriptedMailbox, private: Settings) -> None:
    opened = store(mailbox, private)
    opened.list(None)
    mailbox.refuses["UID FETCH"] = "hang up"
    with pytest.raises(SourceError) as failure:
        opened.read("17-5.eml", 1000)
    assert failure.value.is_temporary
    mailbox.refuses.clear()
    assert opened.read("17-5.eml", 1000) == mailbox.mails[5]
    opened.close()
    assert mailbox.commands[-1] == "LOGOUT"


@pytest.mark.parametrize(
    "answer",
    ["* 1 FETCH (UID 5 BODY[]<0> {99999999999}\r\n", "* " + "x" * 2_000_000, "* OK x\r\n" * 30_000],
)
def test_answers_are_bounded(
    mailbox: ScriptedMailbox, private: Settings, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(mailboxes, "MAX_ANSWER_BYTES", 100_000)
    mailbox.refuses["UID FETCH"] = answer
    with pytest.raises(SourceError):
        store(mailbox, private).read("17-5.eml", 1000)


def test_a_silent_server_ends_in_time(
    mailbox: ScriptedMailbox, private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = store(mailbox, private)
    opened.list(None)
    monkeypatch.setattr(mailboxes, "COMMAND_SECONDS", 0.0)
    with pytest.raises(SourceError, match="did not answer within"):
        opened.list(None)


@pytest.mark.parametrize(
    ("refused", "answer", "is_temporary"),
    [
        ("AUTHENTICATE", "NO [AUTHENTICATIONFAILED] wrong", False),
        ("AUTHENTICATE", "NO [UNAVAILABLE] later", True),
        ("EXAMINE", "NO [NONEXISTENT] no such mailbox", False),
        ("EXAMINE", "NO [INUSE] later", True),
        ("EXAMINE", "* 3 EXISTS\r\n", False),
        ("FETCH", "NO [LIMIT] slow down", True),
    ],
)
def test_refusals_end_a_run_unless_they_may_pass(
    mailbox: ScriptedMailbox, private: Settings, refused: str, answer: str, is_temporary: bool
) -> None:
    mailbox.refuses[refused] = answer
    with pytest.raises(SourceError) as failure:
        store(mailbox, private).list(None)
    assert failure.value.is_temporary is is_temporary


def test_a_server_without_plain_gets_a_quoted_login(mailbox: ScriptedMailbox, private: Settings) -> None:
    mailbox.capabilities = "IMAP4rev1"
    place = Place(url(mailbox), {"username": 'an" na'}, {"password": 'p"w\\'})
    MailboxStore(place, private).list(None)
    assert r'LOGIN "an\" na" "p\"w\\"' in mailbox.commands
    with pytest.raises(SourceError, match="control characters"):
        store(mailbox, private, "x\r\nA1 DELETE INBOX").list(None)


def test_names_of_mailboxes_are_encoded(mailbox: ScriptedMailbox, private: Settings) -> None:
    mailbox.name = '"Entw&APw-rfe &- \\"mehr\\"/2025"'
    address = f"imap://127.0.0.1:{mailbox.port}/Entwürfe%20%26%20%22mehr%22/2025"
    opened = MailboxStore(Place(address, LOGIN, {"password": "the password"}), private)
    assert len(opened.list(None).objects) == 3
    with pytest.raises(InvalidFieldError):
        MailboxStore(Place("imap://127.0.0.1/A%0D%0AB"), private)


def test_passwords_go_to_allowed_addresses_only(
    mailbox: ScriptedMailbox, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match="SHOAL_FETCH_PRIVATE"):
        store(mailbox, settings).list(None)
    private = dataclasses.replace(settings, fetch_private="mail.example.org")
    monkeypatch.setattr(mailboxes, "resolve", lambda host, port: ["127.0.0.1"])
    encrypted = Place(f"imaps://mail.example.org:{mailbox.port}/INBOX", LOGIN, {"password": "the password"})
    with pytest.raises(SourceError):
        MailboxStore(encrypted, private).list(None)
    monkeypatch.setattr(mailboxes, "_HERE", ())
    plain = dataclasses.replace(encrypted, url=encrypted.url.replace("imaps", "imap"))
    with pytest.raises(SourceError, match="this machine only"):
        MailboxStore(plain, private).list(None)
    assert not mailbox.commands
    with pytest.raises(SourceError, match="need the option username"):
        MailboxStore(Place(url(mailbox)), private).list(None)


def test_certificates_are_checked(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    made = ScriptedMailbox({5: mail(TEXTS[0])}, context)
    private = dataclasses.replace(settings, fetch_private="127.0.0.1")
    place = Place(f"imaps://127.0.0.1:{made.port}", LOGIN, {"password": "the password"})
    with pytest.raises(SourceError, match=r"certificate of .* is not valid"):
        MailboxStore(place, private).list(None)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    opened = MailboxStore(place, private)
    assert opened.read("17-5.eml", 1000) == made.mails[5]
    opened.close()
    made.close()


def _certificate(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1 with its key, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(addresses, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    return path
