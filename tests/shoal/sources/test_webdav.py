"""WebDAV: folders, versions, and what a server may not do."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from scripted_store import stored
from web_server import WebServer, response, running

from shoal import Engine
from shoal.errors import ObjectGoneError, SourceError
from shoal.settings import Settings
from shoal.sources.stores import Place, Store, open_store


@pytest.fixture
def server() -> Iterator[WebServer]:
    with running() as opened:
        yield opened


@pytest.fixture
def allowed(settings: Settings, server: WebServer) -> Settings:
    return dataclasses.replace(settings, sources=address(server), fetch_private="127.0.0.1")


def address(server: WebServer) -> str:
    return server.url("/my%20files").replace("http", "webdav")


def opened(server: WebServer, allowed: Settings) -> Store:
    return open_store(Place(address(server), {"username": "ann"}, {"password": "s:e"}), allowed)


def entry(href: str, *, tag: str = "", changed: str = "", size: int | None = None) -> str:
    """An entry of an answer, of a folder without a size."""
    kind = (
        "<resourcetype><collection/></resourcetype>"
        if size is None
        else f"<getcontentlength>{size}</getcontentlength>"
    )
    return (f"<response><href>{href}</href><propstat><prop><getetag>{tag}</getetag><getlastmodified>{changed}"
            f"</getlastmodified>{kind}</prop><status>HTTP/1.1 200 OK</status></propstat></response>")  # fmt: skip


def put_folder(server: WebServer, path: str, *entries: str) -> None:
    body = f'<multistatus xmlns="DAV:">{entry(path)}{"".join(entries)}</multistatus>'
    server.answers[path] = response(body.encode(), "207 Multi-Status")


def listed(store: Store) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    n_skipped, place = 0, None
    while True:
        page = store.list(place)
        found |= {each.name: each.version for each in page.objects}
        n_skipped += page.n_skipped
        place = page.place
        if place is None:
            return found, n_skipped


def test_folders_are_followed(engine: Engine, server: WebServer, allowed: Settings, tmp_path: Path) -> None:
    put_folder(server, "/my%20files/", entry("/my%20files/a.txt", tag="1", size=24), entry("/my%20files/sub"))
    put_folder(
        server, "/my%20files/sub/", entry(server.url("/my%20files/sub/caf%C3%A9%20%26.md"), tag="1", size=9)
    )
    server.page("/my%20files/a.txt", "Lava rose in the volcano.")
    server.page("/my%20files/sub/caf%C3%A9%20%26.md", "# Sea\n\nThe whale swims.")
    (tmp_path / "secret").write_text("s:e\n")
    mine = dataclasses.replace(allowed, database_url=engine.settings.database_url, secrets_dir=str(tmp_path))
    with Engine(settings=mine) as library:
        library.sources.add(
            "dav", address(server), options={"username": "ann"}, secrets={"password": "file:secret"}
        )
        assert library.sources.run("dav").n_new == 2
        assert stored(library) == {
            f"{address(server)}/a.txt": "Lava rose in the volcano.",
            f"{address(server)}/sub/caf\u00e9 &.md": "# Sea\n\nThe whale swims.",
        }
        given = {headers.get("authorization") for _, headers in server.requests}
        assert given == {f"Basic {base64.b64encode(b'ann:s:e').decode()}"}
        assert {headers.get("depth") for target, headers in server.requests if target.endswith("/")} == {"1"}
        put_folder(server, "/my%20files/", entry("/my%20files/a.txt", tag="2", size=24))
        server.page("/my%20files/a.txt", "Lava sank in the volcano.")
        run = library.sources.run("dav")
        assert (run.n_changed, run.n_removed) == (1, 1)


def test_entries_that_lead_elsewhere_are_left_out(server: WebServer, allowed: Settings) -> None:
    hrefs = ["http://other.example/my%20files/a.txt", "//other.example/my%20files/a.txt", "/other/a.txt",
             "/my%20files/../a.txt", "/my%20files/%2e%2e/a.txt", "/my%20files/..%2fa.txt", "/my%20files/%ff.txt",
             "/my%20files/sub/deep.txt", "/my%20files/.hidden.txt", "/my%20files/photo.png", "a.txt", ""]  # fmt: skip
    put_folder(
        server, "/my%20files/", *[entry(href, size=1) for href in hrefs], entry("/my%20files/"), entry("/"),
        entry("/my%20files/a..b.txt", size=1),
    )  # fmt: skip
    names, n_skipped = listed(opened(server, allowed))
    assert (names.keys(), n_skipped) == ({"a..b.txt"}, len(hrefs) + 1)


def test_versions_are_tags_or_times_and_sizes(server: WebServer, allowed: Settings) -> None:
    def version(**given: str | int) -> str:
        put_folder(server, "/my%20files/", entry("/my%20files/a.txt", **given))  # type: ignore[arg-type]
        return listed(opened(server, allowed))[0]["a.txt"]

    first = version(tag="1", changed="Monday", size=3)
    assert version(tag="1", changed="Tuesday", size=3) == first
    others = [version(tag="2", size=3), version(changed="Monday", size=3), version(changed="Monday", size=4)]
    assert len({first, *others}) == 4


def test_links_that_loop_end(server: WebServer, allowed: Settings) -> None:
    path = "/my%20files/"
    for _ in range(70):
        put_folder(server, path, entry(f"{path}loop/"), entry(f"{path}a.txt", size=1))
        path += "loop/"
    names, n_skipped = listed(opened(server, allowed))
    assert (len(names), n_skipped) == (65, 1)


@pytest.mark.parametrize(
    ("answer", "message", "is_temporary"),
    [
        (response(status="401 Unauthorized"), "check the secrets", False),
        (response(status="404 Not Found"), "is the address right", True),
        (response(b"<html/>"), "does not answer as a WebDAV server", False),
        (response(b"<html/>", "207 Multi-Status"), "no answer of WebDAV", True),
        (response(b"<multistatus><resp", "207 Multi-Status"), "cannot be read", True),
        (response(status="503 Busy", Retry_After="9"), "503", True),
        (response(status="301 Moved", Location="http://127.0.0.1:1/"), "301", False),
    ],
)  # fmt: skip
def test_errors_say_whether_another_try_may_help(
    server: WebServer, allowed: Settings, answer: bytes, message: str, is_temporary: bool
) -> None:
    server.answers["/my%20files/"] = answer
    with pytest.raises(SourceError, match=message) as caught:
        opened(server, allowed).list(None)
    assert caught.value.is_temporary is is_temporary


def test_a_file_or_folder_may_go_after_it_was_listed(server: WebServer, allowed: Settings) -> None:
    put_folder(server, "/my%20files/", entry("/my%20files/sub/"))
    store = opened(server, allowed)
    assert listed(store) == ({}, 0)
    with pytest.raises(ObjectGoneError):
        store.read("a.txt", 10)


def test_long_names_are_read(server: WebServer, allowed: Settings) -> None:
    name = "\u6d77" * 340 + ".txt"
    server.page(f"/my%20files/{quote(name)}", "The tide.")
    assert opened(server, allowed).read(name, 100) == b"The tide."


def test_a_folder_that_may_not_be_read_is_not_taken_for_gone(server: WebServer, allowed: Settings) -> None:
    refused = "<response><href>/my%20files/sub/</href><status>HTTP/1.1 403 Forbidden</status></response>"
    put_folder(server, "/my%20files/", entry("/my%20files/a.txt", tag="1", size=24), refused)
    with pytest.raises(SourceError, match="cannot be listed: HTTP"):
        listed(opened(server, allowed))
