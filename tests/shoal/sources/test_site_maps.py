"""Site maps and feeds: which pages they name, their versions, and what they may not do."""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Iterator

import pytest
from scripted_store import stored
from web_server import WebServer, response, running

from shoal import DocFormat, Engine
from shoal.errors import InvalidFieldError, SourceError
from shoal.models.sources import RunStatus
from shoal.settings import Settings
from shoal.sources import site_maps
from shoal.sources.site_maps import SiteStore
from shoal.sources.stores import Listed, Place, open_store


@pytest.fixture
def site() -> Iterator[WebServer]:
    with running() as server:
        yield server


@pytest.fixture
def allowed(settings: Settings, site: WebServer) -> Settings:
    return dataclasses.replace(settings, sources=site.url(""), fetch_private="127.0.0.1")


def opened(site: WebServer, allowed: Settings, path: str = "/sitemap.xml") -> SiteStore:
    store = open_store(Place(site.url(path)), allowed)
    assert isinstance(store, SiteStore)
    return store


def listed(store: SiteStore) -> tuple[dict[str, str], int]:
    """The versions that a store lists, by the path of the URL, and the number of skipped entries."""
    found: list[Listed] = []
    n_skipped, place = 0, None
    while True:
        page = store.list(place)
        found += page.objects
        n_skipped += page.n_skipped
        place = page.place
        if place is None:
            return {each.name.split("/", 3)[3]: each.version for each in found}, n_skipped


def urlset(*entries: str) -> str:
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(entries)}</urlset>'


def entry(url: str, changed: str = "2026-01-01") -> str:
    return f"<url><loc> {url} </loc><lastmod>{changed}</lastmod></url>"


def index(*urls: str) -> str:
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>"


def test_a_site_is_followed(engine: Engine, site: WebServer, allowed: Settings) -> None:
    site.page("/sitemap.xml", index(site.url("/one.xml"), "/two.xml.gz"))
    site.page("/one.xml", urlset(entry(site.url("/sea.php?id=1")), entry(site.url("/plain.html"))))
    site.page("/two.xml.gz", gzip.compress(urlset(entry("/law")).encode()), Content_Type="application/gzip")
    html = "<html><title>Sea</title><body><main><p>{}</p></main></body></html>"
    site.page("/sea.php", html.format("The whale swims in the sea."), Content_Type="text/html")
    site.page("/plain.html", html.format("\u041f\u0440\u0438\u043b\u0438\u0432").encode("koi8-r"),
              Content_Type="text/html; charset=koi8-r")  # fmt: skip
    site.page("/law", "# In court\n\nThe judge read the law.", Content_Type="text/markdown; charset=utf-8")
    with Engine(settings=dataclasses.replace(allowed, database_url=engine.settings.database_url)) as library:
        library.sources.add("site", site.url("/sitemap.xml"))
        first = library.sources.run("site")
        assert (first.status, first.n_new, first.n_failed) == (RunStatus.succeeded, 3, 0)
        texts = stored(library)
        assert texts.keys() == {site.url(path) for path in ("/sea.php?id=1", "/plain.html", "/law")}
        assert "\u041f\u0440\u0438\u043b\u0438\u0432" in texts[site.url("/plain.html")]
        formats = {each.source_path: each.format for each in library.documents.list().documents}
        assert formats[site.url("/law")] is DocFormat.markdown
        n_requests = len(site.requests)
        assert library.sources.run("site").n_bytes == 0
        assert [target for target, _ in site.requests[n_requests:]] == [
            "/sitemap.xml",
            "/one.xml",
            "/two.xml.gz",
        ]
        site.page("/two.xml.gz", urlset(entry("/law", "2026-01-02")))
        site.page("/law", "# In court\n\nThe court read the law.", Content_Type="text/markdown")
        site.page("/one.xml", urlset(entry("/plain.html")))
        again = library.sources.run("site")
        assert (again.n_changed, again.n_removed) == (1, 1)


def test_versions_of_pages_without_a_time_are_asked_for(
    site: WebServer, allowed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_maps, "ASKED_TOGETHER", 2)
    bare = [
        f"<url><loc>/{name}.html</loc></url>" for name in ("tagged", "dated", "neither", "no-head", "gone")
    ]
    site.page("/sitemap.xml", urlset(*bare))
    site.page("/tagged.html", "-", ETag='"7"')
    site.page("/dated.html", "-", Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")
    site.page("/neither.html", "-")
    site.answers["/no-head.html"] = response(status="405 Method Not Allowed")
    first, _ = listed(opened(site, allowed))
    again, _ = listed(opened(site, allowed))
    assert first.keys() == {"tagged.html", "dated.html", "neither.html", "no-head.html"}
    assert {name for name in first if first[name] == again[name]} == {"tagged.html", "dated.html"}


def test_a_page_that_asks_for_fewer_requests_ends_the_listing_for_a_while(
    site: WebServer, allowed: Settings
) -> None:
    site.page("/sitemap.xml", urlset("<url><loc>/a.html</loc></url>"))
    site.answers["/a.html"] = response(status="429 Too Many Requests", Retry_After="30")
    with pytest.raises(SourceError) as caught:
        opened(site, allowed).list(None)
    assert (caught.value.is_temporary, caught.value.retry_after) == (True, 30.0)


def test_feeds_name_their_entries(site: WebServer, allowed: Settings) -> None:
    site.page(
        "/rss",
        "<rss><channel><link>/</link><item><link>/a.html</link><pubDate>1</pubDate></item></channel></rss>",
    )
    site.page("/atom", '<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><updated>9</updated><entry>'
              '<link rel="edit" href="/edit"/><link href="/b.html"/><updated>2</updated></entry></feed>')  # fmt: skip
    site.page("/a.html", "-", ETag='"1"')
    assert listed(opened(site, allowed, "/rss")) == ({"a.html": '"1"'}, 0)
    assert listed(opened(site, allowed, "/atom")) == ({"b.html": "2"}, 0)


def test_only_pages_of_allowed_hosts_are_followed(site: WebServer, allowed: Settings) -> None:
    site.page("/sitemap.xml", urlset(
        entry("http://other.example/a.html"), entry("file:///etc/passwd"), entry("http://127.0.0.1:1/a.html"),
        entry("javascript:x"), entry(""), entry("/photo.png"), entry("/a.html"), entry("/a.html#part"),
        "<url><loc>/b.html</loc><lastmod>2</lastmod><image><loc>/c.html</loc></image></url>",
    ))  # fmt: skip
    assert listed(opened(site, allowed)) == ({"a.html": "2026-01-01", "b.html": "2"}, 6)
    both = dataclasses.replace(allowed, sources=f"{allowed.sources} http://other.example/x.xml")
    assert "a.html" in listed(opened(site, both))[0]
    assert listed(opened(site, both))[1] == 5


def test_a_private_address_needs_permission(site: WebServer, allowed: Settings) -> None:
    site.page("/sitemap.xml", urlset(entry("/a.html")))
    with pytest.raises(SourceError, match="SHOAL_FETCH_PRIVATE") as caught:
        opened(site, dataclasses.replace(allowed, fetch_private="")).list(None)
    assert not caught.value.is_temporary
    with pytest.raises(InvalidFieldError, match="SHOAL_SOURCES"):
        opened(site, dataclasses.replace(allowed, sources="http://example.org"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html><body>Not here</body></html>", "neither a site map nor a feed"),
        ("<urlset><url>", "cannot be read"),
        ('<!DOCTYPE u [<!ENTITY a "b">]><urlset><url><loc>&a;</loc></url></urlset>', "declares an entity"),
        ("<urlset>" + "<a>" * 100, "too deep"),
        (urlset(entry("/a.html"), entry("/b.html"), entry("/c.html")), "more than 2 entries"),
        (index("/1.xml", "/2.xml"), "more than 2 site maps"),
        (index("/deep.xml"), "more than 1 levels deep"),
        (index("/missing.xml"), "there is no file"),
    ],
)  # fmt: skip
def test_what_cannot_be_listed_ends_the_listing(
    site: WebServer, allowed: Settings, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    for name, limit in (("MAX_ENTRIES", 2), ("MAX_FILES", 2), ("MAX_DEPTH", 1)):
        monkeypatch.setattr(site_maps, name, limit)
    site.page("/sitemap.xml", text)
    site.page("/deep.xml", index("/deeper.xml", "/sitemap.xml"))
    with pytest.raises(SourceError, match=message):
        listed(opened(site, allowed))


def test_site_maps_that_name_each_other_are_read_once(site: WebServer, allowed: Settings) -> None:
    site.page("/sitemap.xml", index("/sitemap.xml", "/again.xml"))
    site.page("/again.xml", index("/sitemap.xml", "/again.xml"))
    assert listed(opened(site, allowed)) == ({}, 0)
    assert len(site.requests) == 2


def test_packed_files_are_bounded(
    site: WebServer, allowed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_maps, "MAX_FILE_BYTES", 1000)
    site.page("/sitemap.xml", gzip.compress(urlset(*[entry("/a.html")] * 100).encode()))
    with pytest.raises(SourceError, match="more than 1,000 bytes"):
        opened(site, allowed).list(None)


def test_a_file_that_shrinks_while_it_is_listed_hides_no_page(
    site: WebServer, allowed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_maps, "ASKED_TOGETHER", 1)
    names = ("a", "b", "c")
    for name in names:
        site.page(f"/{name}", name)
    site.page("/sitemap.xml", urlset(*(entry(site.url(f"/{name}"), "") for name in names)))
    store = opened(site, allowed)
    first = store.list(None)
    site.page("/sitemap.xml", urlset(*(entry(site.url(f"/{name}"), "") for name in ("c", "b"))))
    second = store.list(first.place)
    assert [each.name for page in (first, second) for each in page.objects] == [
        site.url("/a"),
        site.url("/b"),
    ]
