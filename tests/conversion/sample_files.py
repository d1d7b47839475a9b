"""A small file of each format that has the structure that converters must keep."""

from __future__ import annotations

import io
import json
import re
import zipfile
from email.message import EmailMessage

from shoal.conversion.converted import ConversionError

HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Tides of the sea — Sea School</title>
<style>p { color: red }</style><script>var tracking = "evil";</script></head>
<body class="page has-sidebar">
<a class="skip-link" href="#main">Skip to content</a>
<header class="site-header"><a href="/">Sea School</a></header>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<div id="cookie-banner"><p>We use cookies to improve your visit.</p><button>Accept</button></div>
<div class="layout"><aside class="sidebar"><a href="/a">Waves</a> <a href="/b">Winds</a></aside>
<main><article>
<h1>Tides<a class="headerlink" href="#tides">¶</a></h1>
<p>The <em>moon</em> pulls the <a href="/sea">sea</a> twice&nbsp;a day.<br>So it rises &amp; falls.</p>
<h2>Spring tides</h2>
<ul><li>at new moon<ul><li>higher</li></ul></li><li>at full moon</li></ul>
<ol start="3"><li>third<li>fourth</ol>
<table><tr><th>Port</th><th>Height</th></tr><tr><td>Brest | west</td><td>7 m</td></tr></table>
<pre class="language-python"><code>def tide():
    return "high"
</code></pre>
<blockquote><p>Time and tide wait for no man.</p></blockquote>
<p># not a heading</p><p>גאות ושפל</p>
</article></main></div>
<footer>© 2024 Sea School. <a href="/privacy">Privacy</a></footer>
</body></html>"""

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"language": "python", "name": "python3"}},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Tides\n", "\n", "How high is *high*?"]},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "source": "height = 7\nheight",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": ["7"], "image/png": "aaaa"},
                    "metadata": {},
                },
                {"output_type": "stream", "name": "stdout", "text": ["line\n"] * 2000},
                {
                    "output_type": "error",
                    "ename": "ValueError",
                    "evalue": "too high",
                    "traceback": ["\x1b[31mx"],
                },
            ],
        },
        {"cell_type": "code", "metadata": {}, "execution_count": None, "source": "", "outputs": []},
        {"cell_type": "raw", "metadata": {}, "source": "# raw text"},
        {"cell_type": "markdown", "metadata": {}, "source": "## End\n```\nopen fence"},
        {"cell_type": "markdown", "metadata": {}, "source": "# After"},
    ],
}

RST = """\
=====
Tides
=====

.. _start:
.. This is a comment.
.. |moon| replace:: the Moon

Why |moon| pulls the `sea <https://example.com/sea>`_ and see :ref:`the ports <ports>`, ``code_x``.

Spring tides
------------

- at new moon,
  on two lines

  * nested
- at full moon

1. first
2. second

.. note:: Beware of rocks.

   And of *currents*.

.. code-block:: python

   def tide():
       return "high"

.. include:: /etc/passwd

Example::

    literal text

======  ======
Port    Height
======  ======
Brest   7 m
Dover   6 m
======  ======

+-------+--------+
| Port  | Height |
+=======+========+
| Lagos | 3 m    |
+-------+--------+

.. list-table:: Winds
   :header-rows: 1

   * - Name
     - Force
   * - Föhn
     - 8

Deeper
~~~~~~

.. py:function:: rise(height)

   Let the sea rise.

.. raw:: html

   <script>alert(1)</script>

Neap tides
----------

A note [1]_ and a word_ here.

.. [1] The footnote.
"""

PYTHON = '''\
"""Tides of the sea."""

import math

HEIGHT = 7


# How the sea rises.
@decorated
def rise(
    height: int,
) -> int:
    return height + 1


class Harbour:
    """A place for ships."""

    def enter(self):
        return True

    async def leave(self):
        def inner():
            return None

        return inner


if __name__ == "__main__":
    rise(HEIGHT)
'''

VTT = """\
WEBVTT - Lecture

STYLE
::cue { color: red }

NOTE this is a comment

intro
00:00:01.000 --> 00:00:04.000 align:start
<v Ann Lee>Welcome to the <b>lecture</b> &amp; thanks.

00:00:04.000 --> 00:00:09.500
<v Ann Lee>Today we talk about tides.

00:01:05.000 --> 00:01:08.000
<v Bob>Why do they <00:01:06.000>rise?

01:00:00.000 --> 01:00:02.000
<v Ann Lee>Because of the moon.
"""

SRT = """\
1
00:00:01,000 --> 00:00:04,000
{\\an8}<i>Welcome</i> to the lecture.

2
00:00:03,000 --> 00:00:06,000
Welcome to the lecture.
Today: tides.

3
00:01:30,500 --> 00:01:32,000
Goodbye.
"""

TRANSCRIPT = """\
# Lecture on tides

[00:00:00 - 00:00:20] Ann: Welcome to the lecture.
[00:00:20 - 00:00:50] Bob: Thank you.
It is good to be here.
[00:01:04 - 00:01:10] Ann: Look at the slide.

## Frame at 00:01:04

A diagram of the moon at 10:30 in the evening.

# Visual Frame at 00:02:10

A photo of a harbour.

## Summary

Tides rise and fall.
"""


def eml() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Gezeiten – תגובה"
    message["From"] = "Ann Müller <ann@example.com>"
    message["To"] = "bob@example.com"
    message["Date"] = "Mon, 1 Jan 2024 10:00:00 +0000"
    message["Message-ID"] = "<1@example.com>"
    message.set_content("The tide is high.\n\n# not a heading\n\n> How high is it?\n\nSeven metres.\n")
    message.add_alternative("<p>The tide is <b>high</b>.</p>", subtype="html")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="Tafel_дом.pdf")
    return message.as_bytes()


def html_eml() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Letter"
    message["From"] = "ann@example.com"
    message["MIME-Version"] = "1.0"
    message.set_content(
        "<h2>News</h2><nav>kept</nav><p>All <a href='x'>well</a>.</p><script>bad()</script>", subtype="html"
    )
    return message.as_bytes()


def mbox() -> bytes:
    second = b"From: bob@example.com\nSubject: Re: Tides\nDate: Tue, 2 Jan 2024 10:00:00 +0000\n\nYes.\n>From the sea.\n"
    return (
        b"From ann@example.com Mon Jan  1 10:00:00 2024\n" + eml() + b"\n"
        b"From bob@example.com Tue Jan  2 10:00:00 2024\n" + second
    )


def mhtml() -> bytes:
    message = EmailMessage()
    message["From"] = "<Saved by Blink>"
    message["Snapshot-Content-Location"] = "https://example.com/tides"
    message["Subject"] = "Tides"
    message.set_content(HTML, subtype="html", cte="quoted-printable")
    message.add_related(b"\x89PNG", maintype="image", subtype="png")
    return message.as_bytes()


def epub(*, chapters: dict[str, str] | None = None, extra: dict[str, str] | None = None) -> bytes:
    pages = chapters or {
        "cover.xhtml": "<html><body><img src='cover.png'/>Cover</body></html>",
        "nav.xhtml": "<html><body><nav epub:type='toc'><ol><li><a href='text/two.xhtml'>Chapter Two</a></li></ol></nav></body></html>",
        "text/one.xhtml": "<html><head><title/></head><body><h1>Chapter One</h1><p>The moon<a id='x'/> rose.</p></body></html>",
        "text/two.xhtml": "<html><body><p>The sea fell.</p><table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table></body></html>",
    }
    items = "".join(
        f'<item id="i{number}" href="{path}" media-type="application/xhtml+xml"'
        + (' properties="nav"/>' if path == "nav.xhtml" else "/>")
        for number, path in enumerate(pages)
    )
    spine = "".join(f'<itemref idref="i{number}"/>' for number in range(len(pages)))
    files = {
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/content.opf"/></rootfiles></container>',
        "OEBPS/content.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Tides, ספר</dc:title></metadata>'
        f'<manifest>{items}</manifest><spine>{spine}</spine><guide><reference type="cover" href="cover.xhtml"/></guide></package>',
        **{f"OEBPS/{path}": page for path, page in pages.items()},
        **(extra or {}),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def sample_files() -> dict[str, bytes]:
    """Return a file of each format by its name."""
    return {
        "tides.html": HTML.encode(),
        "tides.mhtml": mhtml(),
        "tides.epub": epub(),
        "tides.eml": eml(),
        "tides.mbox": mbox(),
        "tides.ipynb": json.dumps(NOTEBOOK).encode(),
        "tides.rst": RST.encode(),
        "tides.py": PYTHON.encode(),
        "tides.vtt": VTT.encode(),
        "tides.srt": SRT.encode(),
        "tides.txt": TRANSCRIPT.encode(),
    }


def assert_says_what_to_do(error: ConversionError) -> None:
    """Assert that a message has the form of all messages: `problem; advice`, without a period at its end."""
    problem, _, advice = str(error).rpartition("; ")
    assert problem
    assert advice
    assert not problem.startswith("The ")
    assert not re.search(r"\.(?:$|;)", str(error))
