"""Web pages become the Markdown of their main content, and say what was removed."""

from __future__ import annotations

import pytest
from converters import convert_html, convert_mhtml
from sample_files import HTML, mhtml

from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.html_tree import parse_html
from shoal.formats.markdown import parse_markdown
from shoal.models.documents import DocFormat

EXPECTED = """\
# Tides

The moon pulls the sea twice a day.
So it rises & falls.

## Spring tides

- at new moon
  - higher
- at full moon

3. third
4. fourth

| Port | Height |
| --- | --- |
| Brest \\| west | 7 m |

```python
def tide():
    return "high"
```

> Time and tide wait for no man.

\\# not a heading

גאות ושפל"""


def page(body: str) -> Converted:
    return convert_html(f"<!doctype html><body>{body}".encode(), "a.html")


@pytest.mark.parametrize("convert", [convert_html, convert_mhtml])
def test_keeps_the_structure_of_the_main_content(convert: object) -> None:
    converted = (
        convert_html(HTML.encode(), "a.html") if convert is convert_html else convert_mhtml(mhtml(), "a.mht")
    )
    assert converted.content == EXPECTED
    assert converted.format is DocFormat.markdown
    assert converted.title == "Tides of the sea — Sea School"
    reasons = {removed.reason: removed.text for removed in converted.removed}
    assert reasons["navigation"] == "Home About us"
    assert reasons["cookie banner"] == "We use cookies to improve your visit. Accept"
    assert reasons["footer"] == "© 2024 Sea School. Privacy"
    assert reasons["page header"] == "Sea School"
    assert reasons["sidebar"] == "Waves Winds"


def test_readers_of_markdown_see_the_sections() -> None:
    parsed = parse_markdown(convert_html(HTML.encode(), "").content)
    assert [section.path for section in parsed.sections] == [("Tides",), ("Tides", "Spring tides")]


def test_scripts_are_listed_and_not_run() -> None:
    converted = page("<p>Text</p><script>document.write('no')</script><noscript>Turn it on</noscript>")
    assert converted.content == "Text"
    assert [(removed.reason, removed.text) for removed in converted.removed] == [
        ("script", "document.write('no')")
    ]


def test_what_is_no_main_content_is_masked_or_searched_on_request() -> None:
    prose = "The moon pulls the sea twice a day, and the sea follows it. " * 5
    source = (
        "<body><nav><a href='/'>Home</a><script>no()</script></nav>"
        f"<article><p>{prose}</p><div class=comments><p>First --> one</p><p>Second <i hidden>x</i> one</p></div>"
        "</article><footer>Sea School</footer></body>"
    ).encode()
    kept = convert_html(source, "")
    masked = convert_html(source, "", parts="masked")
    assert masked.content == (
        f"{kept.content}\n<!-- navigation\nHome\n-->\n\n<!-- comments\nFirst -- > one\nSecond one\n-->\n\n"
        "<!-- footer\nSea School\n-->\n"
    )
    assert masked.removed == kept.removed
    parsed = parse_markdown(masked.content)
    assert [block.reason for block in parsed.left_out] == ["comment"] * 3
    assert "First" not in parsed.masked
    whole = convert_html(source, "", parts="all")
    assert "Second one" in whole.content
    assert {removed.reason for removed in whole.removed} == {"script", "hidden"}
    assert "Sea School" in convert_mhtml(mhtml(), "", parts="all").content


def test_text_for_readers_without_scripts_is_that_of_a_page_without_any_other() -> None:
    prose = "The moon pulls the sea twice a day, and the sea follows it. " * 5
    assert page(f"<div id=app></div><noscript><p>{prose}</p></noscript>").content == prose.strip()
    assert page(f"<p>Text</p><noscript><p>{prose}</p></noscript>").content == "Text"
    with pytest.raises(ConversionError, match="no text"):
        page("<div id=app></div><noscript>Switch scripts on to read this page.</noscript>")


def test_hidden_text_is_removed_and_listed() -> None:
    converted = page(f"<p>{'Seen. ' * 9}<span style='display: none'>unseen</span><i hidden>gone</i></p>")
    assert converted.content == ("Seen. " * 9).strip()
    assert {removed.text for removed in converted.removed} == {"unseen", "gone"}


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("<p>one<p>two", "one\n\ntwo"),
        ("<b>bold <i>both</b> italic</i> text", "bold both italic text"),
        ("<ul><li>a<p>b</p></li></ul>", "- a\n\n  b"),
        ("<ul><li><pre>x\ny</pre></ul>", "- ```\n  x\n  y\n  ```"),
        ("<blockquote>a<blockquote>b</blockquote></blockquote>", "> a\n\n> > b"),
        ("<dl><dt>Ebb<dd>falling sea</dl>", "Ebb\n\n- falling sea"),
        (
            "<p>- no list<p>1. item<p>> no quote<p>--- <p>```",
            "\\- no list\n\n1. item\n\n\\> no quote\n\n\\---\n\n\\```",
        ),
        ("<p>use <code>a_b()</code> and <kbd>x</kbd>", "use `a_b()` and `x`"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<div class='highlight-python3 notranslate'><pre>x</pre></div>", "```python3\nx\n```"),
        ("<table><tr><td>only</td></tr></table>", "only"),
        ("<table><tr><td colspan=2>wide<tr><td>a<td>b</table>", "| wide |  |\n| --- | --- |\n| a | b |"),
        ("<table><tr><td><h2>Layout</h2><p>text</table>", "## Layout\n\ntext"),
        ("<p>&#9999999999999999; &lt;b&gt; &amp;amp;", "<b> &amp;"),
        ("<p>so\u00adft\u200bly", "softly"),
        ("<p>E = <math alttext='mc^2'><mi>m</mi></math>", "E = mc^2"),
        ("<h1></h1><h2> </h2><p>x", "x"),
        ("<textarea>typed</textarea><select><option>one</select><p>x", "x"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
        ("<![CDATA[x]]><p>y</p>", "x\n\ny"),
        ("<p>a<br><br>b", "a\n\nb"),
    ],
)
def test_renders(body: str, content: str) -> None:
    assert page(body).content == content


def test_text_that_is_hidden_until_a_script_runs_is_kept() -> None:
    for attribute in ("style='visibility:hidden'", "hidden", "aria-hidden=true"):
        assert page(f"<div {attribute}><p>The text.</p></div><p>Wait.</p>").content == "The text.\n\nWait."


def test_a_list_of_links_is_navigation_but_a_page_of_links_is_a_page() -> None:
    links = "<ul>" + "".join(f"<li><a href={number}>Chapter {number}</a>" for number in range(9)) + "</ul>"
    prose = f"<p>{'The sea is deep and wide. ' * 40}</p>"
    assert "Chapter" not in page(links + prose).content
    assert "- Chapter 3" in page(links).content


def test_a_heading_in_the_header_of_the_page_is_kept() -> None:
    converted = page(
        f"<header><a href=/>Site</a></header><div><h1>Title</h1></div><main><p>{'Text. ' * 50}</main>"
    )
    assert converted.content.startswith("# Title\n\nText.")


def test_classes_that_only_sound_like_boilerplate_keep_the_text() -> None:
    for name in ("has-sidebar", "page-with-toc", "cookie-recipes", "no-nav", "share"):
        assert "deep" in page(f"<div class={name}><p>{'The sea is deep. ' * 40}</div>").content


STORY = "".join(
    f"<p>The tide of day {day} was high, and the harbour filled with water.</p>" for day in range(9)
)
COMMENT = "<p>I was there and saw it with my own eyes, what a day that was!</p>"
LINK = "<a href=/other>Ten reasons why the moon is so round</a>"


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("comments", f"<div id=comments><h2>Two replies</h2>{COMMENT * 2}</div>"),
        ("comments", f"<ol class=comment-list><li>{COMMENT}</ol>"),
        ("related pages", f"<div class=related-articles><h3>Moons</h3><p>{LINK}</div>"),
        ("related pages", f"<div><h3>You might also like</h3><p>{LINK}</div>"),
        ("advertisement", "<div class=advertisement><p>Buy two boats and pay for one.</p></div>"),
        ("about the author", "<div class=author-bio><p>Ann Sailor writes about the sea.</p></div>"),
        ("form", "<form><label>Your name</label><p>We never publish it.</p></form>"),
        ("footer", "<footer><p>Printed in the harbour.</p></footer>"),
        ("links", f"<p>{LINK}</p>"),
        ("links", f"<ul><li>{LINK}<li>{LINK}</ul>"),
        ("caption of a picture", "<figure><figcaption>The harbour. Photo: A. Sailor</figcaption></figure>"),
        ("after the text", "<p>Back to all stories</p>"),
    ],
)
def test_parts_that_are_not_the_text_of_an_article_are_removed_and_listed(reason: str, part: str) -> None:
    converted = page(f"<article><h1>Tides</h1>{STORY}{part}</article>")
    assert converted.content == page(f"<article><h1>Tides</h1>{STORY}</article>").content
    assert [removed.reason for removed in converted.removed] == [reason]


@pytest.mark.parametrize(
    "part",
    [
        "<figure><figcaption>Figure 2: Heights by day</figcaption></figure>",
        "<p>The <a href=/moon>moon</a> pulls.</p>",
        "<h2>Neap tides</h2>",
        "<ul><li>Brest<li>Calais</ul>",
        "<pre>high = 7</pre>",
        "<table><tr><td>Brest<td>7 m<tr><td>Calais<td>6 m</table>",
        "<div class='post has-comments without-sidebar'><p>The sea was calm on that day.</p></div>",
        "<div class=shareholders><p>All shareholders got wet feet that day.</p></div>",
    ],
)
def test_short_parts_between_the_paragraphs_of_an_article_are_kept(part: str) -> None:
    converted = page(f"<article><h1>Tides</h1>{STORY}{part}{STORY}</article>")
    assert len(converted.content) > 2 * len(page(STORY).content) + 12
    assert not converted.removed


def test_headings_of_lists_after_the_text_are_kept() -> None:
    end = "<h2>See also</h2><ul><li>Moon<li>Sun</ul><h2>Ports</h2><table><tr><td>Brest<td>7 m</table>"
    content = page(f"<article>{STORY}{end}<h2>Comments</h2></article>").content
    assert "## See also\n\n- Moon" in content
    assert "## Ports\n\nBrest" in content
    assert "Comments" not in content


def test_parts_beside_the_text_are_removed_unless_they_are_prose() -> None:
    before = "<div><p>In one night the harbour rose by seven metres. Nobody had foreseen that.</p></div>"
    beside = f"<div><p>Moons</p><p>{LINK}</p></div><div><b>Weather</b><p>12 degrees, rain</p></div>"
    converted = page(f"<div>{before}<div>{STORY}</div>{beside}</div>")
    assert converted.content == page(before + STORY).content
    assert {removed.reason for removed in converted.removed} == {"outside the main content"}


def test_the_comments_of_a_forum_are_its_text() -> None:
    assert "saw it" in page(f"<h1>Who saw it?</h1><div class=comments>{COMMENT * 20}</div>").content


def test_many_comments_do_not_make_the_article_a_small_part() -> None:
    article = f"<div class=paywall>{STORY}</div>"
    converted = page(f"<article>{article}<section id=comments>{COMMENT * 60}</section></article>")
    assert converted.content == page(STORY).content


def test_a_large_part_that_is_left_out_is_a_warning() -> None:
    (warning,) = page(f"<article>{STORY}<div id=comments>{COMMENT * 9}</div></article>").warnings
    assert warning.startswith("parts of the page are left out: comments (")
    assert not page(f"<nav>{LINK * 9}</nav><article>{STORY}</article>").warnings


def test_a_head_and_a_title_of_a_drawing_without_end_do_not_take_the_text() -> None:
    assert convert_html(b"<html><head><div><p>kept</p></div>", "").content == "kept"
    assert page("<svg><title/><path></svg><p>kept").content == "kept"


@pytest.mark.parametrize(
    "data",
    [
        "<meta charset=windows-1251><p>Прилив".encode("cp1251"),
        "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'><p>Прилив".encode("koi8-r"),
        "\ufeff<p>Прилив".encode("utf-16"),
        "\ufeff<meta charset=koi8-r><p>Прилив".encode(),
        "<?xml version='1.0' encoding='iso-8859-5'?><html><p>Прилив</p></html>".encode("iso-8859-5"),
        "<meta charset=utf-16><p>Прилив".encode(),
        "<meta charset=no-such-charset><p>Прилив".encode(),
    ],
)
def test_reads_the_declared_encoding(data: bytes) -> None:
    assert convert_html(data, "a.html").content == "Прилив"


def test_a_damaged_byte_does_not_change_the_encoding() -> None:
    data = ("<p>" + "Ebbe und Flut: täglich größer, höher. " * 20).encode() + b"\xc3"
    assert "täglich größer" in convert_html(data, "").content


def test_xhtml_elements_may_be_empty() -> None:
    data = b'<?xml version="1.0"?><html><head><title/><script src="a"/></head><body><p>kept</p></body></html>'
    assert convert_html(data, "").content == "kept"


@pytest.mark.parametrize("data", [b"", b"<html></html>", b"<script>x</script>", b"<nav></nav>"])
def test_a_page_without_text_is_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError) as caught:
        convert_html(data, "a.html")
    assert caught.value.code == "no_text"


def test_an_archive_without_a_page_is_an_error() -> None:
    with pytest.raises(ConversionError) as caught:
        convert_mhtml(b"MIME-Version: 1.0\nContent-Type: text/plain\n\nhello", "a.mht")
    assert caught.value.code == "no_text"


@pytest.mark.parametrize(
    ("title", "rest", "expected"),
    [
        ("Tides - Sea School", '<h1>Tides<a class="headerlink" href="#t">¶</a></h1>', "Tides"),
        ("Sea School | tides", "<h1>Tides</h1>", "Tides"),
        ("Tides — Sea School", "<header><h1>Tides</h1></header>", "Tides"),
        ("Tides :: Sea :: School", '<meta property="og:title" content="Tides">', "Tides"),
        # The heading is another title than the declared one, or a part of a name.
        ("Tides - Sea School", "<h1>The moon</h1>", "Tides - Sea School"),
        ("Tide-locked moons", "<h1>Tide</h1>", "Tide-locked moons"),
        ("Tides and moons", "<h1>Tides</h1>", "Tides and moons"),
        # The heading is the name of the site.
        ("Tides - Sea School", '<meta property="og:site_name" content="Sea School"><h1>Sea School</h1>', "Tides - Sea School"),
        ("Tides - Sea School", "<nav><h1>Sea School</h1></nav>", "Tides - Sea School"),
        ("", '<meta property="og:title" content="Tides">', "Tides"),
    ],
)  # fmt: skip
def test_the_title_is_without_the_name_of_the_site(title: str, rest: str, expected: str) -> None:
    text = "<p>The sea rises and falls twice a day, because the moon and the sun draw the water.</p>"
    head = f"<head><title>{title}</title></head>" if title else ""
    assert convert_html(f"<html>{head}<body>{rest}{text * 5}".encode(), "a.html").title == expected


def test_deep_elements_become_siblings() -> None:
    tree = parse_html("<div>" * 1000 + "deep" + "</div>" * 1000 + "<p>after")
    depth = 0
    node = tree.texts.index("deep")
    while node:
        node, depth = tree.parents[node], depth + 1
    assert depth <= 151
    assert tree.parents[tree.texts.index("after")] == tree.names.index("p")


def test_cells_over_several_rows_keep_the_columns_of_the_others() -> None:
    rows = (
        "<th rowspan=2>Ship</th><th colspan=2>Load</th>",
        "<th>in</th><th>out</th>",
        "<td rowspan='2'>Anna</td><td>1</td><td rowspan=3>2</td>",
        "<td>3</td>",
        "<td>Bella</td><td>4</td>",
    )
    table = "".join(f"<tr>{row}</tr>" for row in rows)
    content = convert_html(f"<p>Text.</p><table>{table}</table>".encode(), "a.html").content
    assert content.split("\n\n")[1].split("\n") == [
        "| Ship | Load |  |",
        "| --- | --- | --- |",
        "| Ship | in | out |",
        "| Anna | 1 | 2 |",
        "| Anna | 3 | 2 |",
        "| Bella | 4 | 2 |",
    ]
