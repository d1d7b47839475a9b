"""Fetching from honest and hostile servers. All of them listen on loopback, which a setting allows."""

from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_server import WebServer, response, running

from shoal.conversion import fetching
from shoal.conversion.fetching import MAX_REDIRECTS, FetchedFile, Fetcher
from shoal.conversion.web_addresses import FetchPolicy, parse_url
from shoal.errors import EmptyDocumentError, FetchError, InvalidFieldError, RefusedKindError
from shoal.models.documents import Validators
from shoal.settings import Settings

LOOPBACK = {"fetch_urls": "*:*", "fetch_private": "*", "fetch_seconds": 5.0}
PAGE = "<!doctype html><html><title>Tides</title><p>The moon pulls the sea.</p></html>"


@pytest.fixture(scope="module")
def started() -> Iterator[WebServer]:
    with running() as server:
        yield server


@pytest.fixture
def server(started: WebServer) -> WebServer:
    started.answers.clear()
    started.requests.clear()
    return started


def fetch(url: str, known: Validators | None = None, **settings: Any) -> FetchedFile | None:
    return Fetcher(Settings(**{**LOOPBACK, **settings})).fetch(url, known)


def must_fetch(url: str, **settings: Any) -> FetchedFile:
    file = fetch(url, **settings)
    assert file is not None
    return file


def refused(url: str, **settings: Any) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch(url, **settings)
    return caught.value


def test_page_is_fetched_with_what_identifies_its_version(server: WebServer) -> None:
    url = server.page("/tides.html", PAGE, Content_Type="text/html", ETag='"a"', Last_Modified="then")
    file = must_fetch(url)
    assert (file.data.decode(), file.name, file.kind.id) == (PAGE, "tides.html", "html")
    assert file.validators == Validators('"a"', "then")
    ((target, headers),) = server.requests
    assert target == "/tides.html"
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert not {"cookie", "authorization", "referer", "if-none-match"} & headers.keys()


def test_unchanged_page_is_not_sent_again(server: WebServer) -> None:
    url = server.page("/a", "text", ETag='W/"1"')
    assert fetch(url, Validators('W/"1"', None)) is None
    assert fetch(url, Validators('W/"0"', None)) is not None
    assert fetch(server.page("/b", "text", Last_Modified="then"), Validators(None, "then")) is None


def test_answer_without_question_is_an_error(server: WebServer) -> None:
    server.answers["/a"] = response(status="304 Not Modified")
    assert refused(server.url("/a")).code == "url_failed"


def test_redirect_is_followed_and_the_name_is_the_last_one(server: WebServer) -> None:
    server.page("/new/notes.md", "# Notes")
    server.answers["/old"] = response(status="302 Found", Location="new/notes.md?x=1#part")
    file = must_fetch(server.url("/old"))
    assert (file.name, file.kind.id) == ("notes.md", "markdown")
    assert server.requests[1][0] == "/new/notes.md?x=1"


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "//user:secret@127.0.0.1/",
        "http://0.0.0.0/",
        "http://exa mple.org/",
        "http://" + "a" * 9000,
        "javascript:alert(1)",
    ],
)
def test_redirect_to_what_no_page_has_is_refused(server: WebServer, location: str) -> None:
    server.answers["/a"] = response(status="301 Moved Permanently", Location=location)
    error = refused(server.url("/a"))
    assert error.code == "url_refused"
    assert not error.is_temporary
    assert "secret" not in str(error)


def test_redirect_to_a_host_that_is_not_listed_is_refused(server: WebServer) -> None:
    server.answers["/a"] = response(status="307 Temporary Redirect", Location=server.url("/b", "localhost"))
    server.page("/b", "text")
    assert refused(server.url("/a"), fetch_urls="127.0.0.1:*").code == "url_refused"
    assert must_fetch(server.url("/a"), fetch_urls="127.0.0.1:*,localhost:*").data == b"text"


def test_redirect_from_https_to_http_is_refused() -> None:
    policy = FetchPolicy(Settings(fetch_urls="*"))
    before = parse_url("https://example.org/a", 1000)
    assert str(policy.check_redirect(before, "/b")) == "https://example.org/b"
    with pytest.raises(FetchError, match="from https to http"):
        policy.check_redirect(before, "http://example.org/b")


def test_loop_of_redirects_ends(server: WebServer) -> None:
    server.answers["/a"] = response(status="302 Found", Location="/a")
    assert refused(server.url("/a")).code == "url_refused"
    assert len(server.requests) == 1 + MAX_REDIRECTS


@pytest.mark.parametrize("listed", ["", "example.org", "*.example.org", "127.0.0.1", "127.0.0.2:*"])
def test_host_or_port_that_is_not_listed_is_not_asked(server: WebServer, listed: str) -> None:
    error = refused(server.page("/a", "text"), fetch_urls=listed)
    assert error.code == "url_refused"
    assert "SHOAL_FETCH_URLS" in str(error)
    assert not server.requests


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.1",
        "127。0。0。1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "0.0.0.0",
    ],
)
def test_address_of_this_machine_is_refused_however_it_is_written(server: WebServer, host: str) -> None:
    error = refused(server.url("/", host), fetch_private="")
    assert error.code == "url_refused"
    assert "SHOAL_FETCH_PRIVATE" in str(error)
    assert not server.requests


def test_private_host_is_allowed_by_name_only(server: WebServer) -> None:
    server.page("/", "text")
    assert must_fetch(server.url("/", "localhost"), fetch_private="localhost").data == b"text"
    assert refused(server.url("/"), fetch_private="localhost").code == "url_refused"


def fetcher_with(*answers: list[str], **settings: Any) -> tuple[Fetcher, list[str]]:
    """A fetcher whose name server gives these answers, one after another, and the names that it was asked."""
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return Fetcher(Settings(**{**LOOPBACK, **settings}), resolve), asked


def test_name_is_resolved_once_and_the_checked_address_is_used(server: WebServer) -> None:
    server.page("/", "text")
    # A second answer would lead nowhere.
    fetcher, asked = fetcher_with(["127.0.0.1"], ["192.0.2.1"])
    assert fetcher.fetch(f"http://rebinding.example:{server.port}/") is not None
    assert asked == ["rebinding.example"]


def test_name_whose_address_changes_to_a_private_one_is_refused(server: WebServer) -> None:
    server.answers["/a"] = response(status="302 Found", Location="/b")
    server.page("/b", "text")
    fetcher, asked = fetcher_with(["127.0.0.1"], ["169.254.169.254"])
    with pytest.raises(FetchError, match="no page has"):
        fetcher.fetch(f"http://rebinding.example:{server.port}/a")
    assert len(asked) == 2
    assert len(server.requests) == 1


def test_name_with_public_and_private_addresses_is_refused(server: WebServer) -> None:
    fetcher, _ = fetcher_with(["192.0.2.1", "127.0.0.1"], fetch_private="")
    with pytest.raises(FetchError) as caught:
        fetcher.fetch(f"http://both.example:{server.port}/")
    assert caught.value.code == "url_refused"
    assert "127.0.0.1" not in str(caught.value)
    assert not server.requests


def test_second_address_is_tried(server: WebServer) -> None:
    server.page("/", "text")
    fetcher, _ = fetcher_with(["127.0.0.254", "127.0.0.1"])
    assert fetcher.fetch(f"http://two.example:{server.port}/") is not None


def test_name_that_cannot_be_resolved() -> None:
    error = refused("http://nowhere.invalid/")
    assert error.code == "url_unreachable"


def test_name_server_that_never_answers_does_not_hold_the_fetch() -> None:
    settings = Settings(**{**LOOPBACK, "fetch_seconds": 0.3})
    fetcher = Fetcher(settings, lambda _host, _port: time.sleep(5) or [])  # type: ignore[func-returns-value]
    with pytest.raises(FetchError) as caught:
        fetcher.fetch("http://slow.example/")
    assert (caught.value.code, caught.value.is_temporary) == ("url_time_limit", True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "notes.md",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://",
        "http:///a",
        "//example.org/",
        "http://user@example.org/",
        "http://user:secret@example.org/",
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://exa\nmple.org/",
        "http://a b/",
        "http://a..b/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://exa%6dple.org/",
        "http://a\\@b/",
        "http://" + "a" * 70 + ".org/",
        "http://example.org/" + "ü" * 400,
        "http://" + "a." * 600,
        "http://１２７.0.0.1/",
        "http://[1.2.3.4]/",
        "http://0177.0.0.1/",
        "http://256.1.1.1/",
    ],
)
def test_what_is_no_url_of_a_page_is_an_invalid_field(url: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        fetch(url)
    assert caught.value.field == "url"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        ("HTTP://Example.ORG:80/a b?q=ü#part", "http://example.org/a%20b?q=%C3%BC"),
        ("https://bücher.example.:443", "https://xn--bcher-kva.example/"),
        (" http://[0:0::1]:8080/a/../b ", "http://[::1]:8080/b"),
        ("http://example.org?q", "http://example.org/?q"),
    ],
)
def test_url_has_one_form(url: str, normalized: str) -> None:
    assert str(parse_url(url, 1000)) == normalized
    assert str(parse_url(normalized, 1000)) == normalized


def test_endless_body_ends_at_the_limit(server: WebServer) -> None:
    def endless(connection: socket.socket, _target: str, _headers: dict[str, str]) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"word " * 1000)

    server.answers["/"] = endless
    error = refused(server.url(), max_file_bytes=50_000, max_document_bytes=50_000)
    assert (error.code, error.is_temporary) == ("url_too_large", False)


def test_announced_size_over_the_limit_is_not_read(server: WebServer) -> None:
    server.answers["/"] = response(length=10**15)
    assert refused(server.url()).code == "url_too_large"


def test_bomb_is_not_unpacked(server: WebServer) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    server.answers["/"] = response(bomb, Content_Encoding="gzip")
    error = refused(server.url(), max_file_bytes=100_000, max_document_bytes=100_000)
    assert error.code == "url_too_large"


def test_bomb_is_unpacked_in_small_pieces() -> None:
    pieces = fetching._unpacked([gzip.compress(bytes(20_000_000))])
    assert max(map(len, pieces)) <= 1 << 20


def test_packed_page_is_unpacked(server: WebServer) -> None:
    text = b"The tide follows the moon. " * 9000
    packed = gzip.compress(text[:1000]) + gzip.compress(text[1000:])
    server.answers["/"] = response(packed, Content_Encoding="gzip")
    assert must_fetch(server.url()).data == text


@pytest.mark.parametrize(
    "answer",
    [
        response(gzip.compress(b"text" * 99)[:-9], Content_Encoding="gzip"),
        response(b"text", Content_Encoding="gzip"),
        response(b"text", Content_Encoding="br"),
        response(b"text", length=900),
        response(b"text", Transfer_Encoding="chunked"),
        response(b"text", status="200 OK\r\nContent-Length: 3"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(500)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 500_000,
        b"",
        b"\x00" * 5000,
    ],
    ids=[
        "truncated",
        "not packed",
        "other packing",
        "short",
        "not chunked",
        "two lengths",
        "not HTTP",
        "many headers",
        "long header",
        "nothing",
        "zeros",
    ],
)
def test_broken_answer_is_a_failed_fetch(server: WebServer, answer: bytes) -> None:
    server.answers["/"] = answer
    assert refused(server.url()).code == "url_failed"


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: ", b""])
def test_trickle_ends_at_the_time_limit(server: WebServer, head: bytes) -> None:
    def trickle(connection: socket.socket, _target: str, _headers: dict[str, str]) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"1")
            time.sleep(0.05)

    server.answers["/"] = trickle
    error = refused(server.url(), fetch_seconds=0.4)
    assert (error.code, error.is_temporary) == ("url_time_limit", True)


def test_endless_interim_answers_end_at_the_time_limit(server: WebServer) -> None:
    def interim(connection: socket.socket, _target: str, _headers: dict[str, str]) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            time.sleep(0.01)

    server.answers["/"] = interim
    assert refused(server.url(), fetch_seconds=0.4).code == "url_time_limit"


@pytest.mark.parametrize(
    ("status", "retry_after", "is_temporary", "seconds"),
    [
        ("404 Not Found", "9", False, None),
        ("410 Gone", "", False, None),
        ("204 No Content", "", False, None),
        ("206 Partial Content", "", False, None),
        ("302 Found", "", False, None),
        ("503 Service Unavailable", "7", True, 7.0),
        ("429 Too Many Requests", "soon", True, None),
        ("500 Internal Server Error", "9" * 500, True, 999_999_999.0),
        ("503 Service Unavailable", "\xb2", True, None),
        ("503 Service Unavailable", "Thu, 01 Jan 99999999999 00:00:00 GMT", True, None),
        ("503 Unavailable", "Thu, 01 Jan 1970 00:00:00 GMT", True, 0.0),
    ],
)
def test_status_says_whether_another_try_may_help(
    server: WebServer, status: str, retry_after: str, is_temporary: bool, seconds: float | None
) -> None:
    server.answers["/"] = response(status=status, Retry_After=retry_after)
    error = refused(server.url())
    assert (error.code, error.is_temporary, error.retry_after) == ("url_failed", is_temporary, seconds)


def test_closed_port_is_a_failure_for_a_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = refused(f"http://127.0.0.1:{port}/")
    assert (error.code, error.is_temporary) == ("url_unreachable", True)


def test_page_over_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with running("::1") as server:
            server.page("/", "text")
            assert must_fetch(server.url("/", "[::1]")).data == b"text"
            assert server.requests[0][1]["host"] == f"[::1]:{server.port}"
    except OSError:
        pytest.skip("this machine has no loopback of IPv6")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the key and the certificate of localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *key, "-days", "2", *name, "-keyout", file, "-out", f"{file}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def test_certificate_is_checked_against_the_name(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with running(context=context) as server:
        server.page("/", "text")
        url = f"https://localhost:{server.port}/"
        error = refused(url)
        assert (error.code, error.is_temporary) == ("url_unreachable", False)
        assert "self-signed" in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert must_fetch(url).data == b"text"
        other_name = f"https://127.0.0.1:{server.port}/"
        assert "certificate of 127.0.0.1" in str(refused(other_name))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("path", "headers", "name", "kind"),
    [
        ("/page.php", {"Content_Type": "text/html; charset=UTF-8"}, "page.php.html", "html"),
        ("/", {"Content_Type": "text/html"}, "index.html", "html"),
        ("/a.md", {}, "a.md", "markdown"),
        ("/a.csv", {"Content_Type": "application/octet-stream"}, "a.csv", "csv"),
        ("/get", {"Content_Type": "text/csv"}, "get.csv", "csv"),
        (
            "/get",
            {"Content_Disposition": 'attachment; filename="../../etc/notes.md"'},
            "notes.md",
            "markdown",
        ),
        ("/get", {"Content_Disposition": "attachment; filename*=UTF-8''%E2%82%AC%00.md"}, "€.md", "markdown"),
        ("/get", {"Content_Disposition": 'attachment; filename=".."'}, "get.txt", "text"),
        ("/%2e%2e%2f%2e%2e%2fx.txt", {}, "x.txt", "text"),
        ("/" + "n" * 300 + ".md", {}, "n" * 197 + ".md", "markdown"),
        ("/a.txt", {"Content_Type": "nonsense"}, "a.txt", "text"),
    ],
)
def test_name_and_kind(server: WebServer, path: str, headers: dict[str, str], name: str, kind: str) -> None:
    body = PAGE if kind == "html" else "a,b\n1,2\n"
    file = must_fetch(server.page(path, body, **headers))
    assert (file.name, file.kind.id) == (name, kind)


def test_encoding_of_the_header_is_used_unless_the_text_is_utf8(server: WebServer) -> None:
    words = "Fjodor Dostojewskij: Идиот"
    latin = server.page("/a.txt", words.encode("koi8-r"), Content_Type="text/plain; charset=koi8-r")
    assert must_fetch(latin).data.decode("utf-8-sig") == words
    wrong = server.page("/b.txt", words.encode(), Content_Type="text/plain; charset=iso-8859-1")
    assert must_fetch(wrong).data.decode() == words


def test_file_without_text_is_refused(server: WebServer) -> None:
    with pytest.raises(RefusedKindError):
        fetch(server.page("/a", b"\x89PNG\r\n\x1a\n" + bytes(99), Content_Type="image/png"))
    with pytest.raises(EmptyDocumentError):
        fetch(server.page("/b", ""))


def test_validators_that_cannot_be_sent_back_are_not_kept(server: WebServer) -> None:
    assert must_fetch(server.page("/a", "text", ETag='"' + "a" * 5000 + '"')).validators.etag is None
    assert must_fetch(server.page("/b", "text", ETag='"ü"')).validators.etag == '"ü"'
