"""Passages of Markdown in the console: structure and marks, and nothing that acts, loads or is lost."""

from __future__ import annotations

import html
import re

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from surface import Store

from shoal_api.console.figures import excerpt, runs
from shoal_api.console.rendered import MAX_RENDERED_CHARS, Run, render_markdown

TABLE = "| part | price |\n|:--|--:|\n| rotor | 12 |\n| blade | 7 |\n"
TAGS = frozenset(
    re.findall(
        r"\w+", "p ul ol li a table thead tbody tr th td pre code blockquote em strong s mark span hr br"
    )
)


def rendered(text: str, *marked: str) -> str:
    spans = sorted(match.span() for word in marked for match in re.finditer(re.escape(word), text))
    return str(render_markdown(runs(text, spans)))


def tags(markup: str) -> set[str]:
    return set(re.findall(r"<(\w+)", markup))


def test_structure_is_drawn_with_the_marks_in_it() -> None:
    markup = rendered(f"## Rotor list\n\nA **rotor** and\n\n{TABLE}\n```\nrotor\n  turns\n```\n", "rotor")
    assert "<strong><mark>rotor</mark></strong>" in markup
    assert "<td><mark>rotor</mark></td>" in markup
    assert "<pre><code><mark>rotor</mark>\n  turns\n</code></pre>" in markup
    assert '<p class="heading">Rotor list</p>' in markup
    assert "style=" not in markup


def test_a_mark_across_emphasis_and_at_a_list_number() -> None:
    markup = str(render_markdown([Run("a ", False), Run("*red* fish", True), Run(" swims", False)]))
    assert markup == "<p>a <em><mark>red</mark></em><mark> fish</mark> swims</p>\n"
    assert "<li>one" in rendered("1. one\n2. two", "1", "2")


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt&#58;alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//evil.org",
        "a.md",
    ],
)
def test_only_links_to_the_web_and_to_mail(address: str) -> None:
    assert rendered(f"[more]({address}) <{address}>", "alert").count("<a") == 0


def test_links_images_and_tags() -> None:
    markup = rendered(
        '[more](https://a.example/?q="x) ![sea](https://b.example/i.png) <script>x()</script>', "q"
    )
    assert markup == (
        '<p><a href="https://a.example/?q=&#34;x" rel="noopener noreferrer">more</a> sea '
        "&lt;script&gt;x()&lt;/script&gt;</p>\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "`" * 1_000_000,
        "x" * (MAX_RENDERED_CHARS + 1),
        "".join("  " * depth + "- item\n" for depth in range(60)),
        "| a | b |\n|---|---|\n| c | d | lost |\n",
        "|".join("a" * 500) + "\n" + "|".join("-" * 500) + "\n" + "x\n" * 500,
        "x = __init__()\n```\n\nThe end of a code block above.",
    ],
)
def test_what_cannot_be_rendered_as_a_whole_is_shown_as_written(text: str) -> None:
    assert render_markdown([Run(text, False)]) is None


@pytest.mark.parametrize(
    "piece", ["[", "![", "*a ", "**a*b", "`a``", "<a", "> - ", "[a](<b\n", "&#", "\\", "~~a"]
)
def test_repeated_syntax_only_gives_known_tags(piece: str) -> None:
    markup = render_markdown([Run((piece * MAX_RENDERED_CHARS)[:MAX_RENDERED_CHARS], False)])
    assert markup is None or tags(markup) <= TAGS


@given(
    st.text("ab1 \n\t*_`~[]()!<>|-#:.&;\"'\\\ufdd0\ufdd3", max_size=120),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_any_text_is_balanced_and_complete(text: str, start: int, length: int) -> None:
    markup = render_markdown(runs(text, [(start, start + length)]))
    if markup is None:
        return
    assert tags(markup) <= TAGS
    assert not re.search(r"[\ufdd0-\ufdd3]", markup)
    for tag in ("mark", "span", "p", "a", "code"):
        assert len(re.findall(f"<{tag}\\b", markup)) == markup.count(f"</{tag}>")


def test_an_excerpt_cuts_no_table() -> None:
    text = f"{'Words before. ' * 40}\n\n{TABLE}\n{'Words after. ' * 40}"
    at = text.index("blade")
    part = render_markdown(excerpt(text, [(at, at + 5)], None, True))
    assert "<th>part</th>" in str(part)
    assert "<td><mark>blade</mark></td>" in str(part)


def test_pages_render_markdown_and_keep_lines_of_plain_text(client: FlaskClient, store: Store) -> None:
    text = f"The volcano erupts **lava** again and again, and the magma rises.\n\n{TABLE}"
    ids = [
        store(title=kind, content=text.replace("again", kind), format=kind)
        for kind in ("markdown", "plaintext")
    ]
    found = client.get("/?q=volcano+lava").get_data(as_text=True)
    assert "<strong><mark>lava</mark></strong>" in found
    assert "**<mark>lava</mark>**" in found
    pages = [client.get(f"/documents/{number}").get_data(as_text=True) for number in ids]
    assert "<td>rotor</td>" in pages[0]
    assert html.escape("| rotor | 12 |\n| blade | 7 |") in pages[1]
