"""Damaged and hostile files of every format end as text or as one error, in bounded time."""

from __future__ import annotations

import io
import json
import random
import time
import zipfile
from collections.abc import Callable

import pytest
from converters import converter_of
from sample_files import HTML, assert_says_what_to_do, epub, sample_files

from shoal.conversion import package
from shoal.conversion.converted import ConversionError, Converted, shortened
from shoal.conversion.recognition import recognise

SAMPLES = sample_files()
CODES = frozenset(["encrypted", "broken", "no_text", "too_large", "missing_extra"])
N_DAMAGED = 100
SECONDS = 20.0
"""Processor time for a hostile file: ten times what the slowest takes."""


def convert(kind_id: str, data: bytes, name: str) -> Converted | ConversionError:
    """Convert a file and check what every result must have."""
    started = time.process_time()
    try:
        converted = converter_of(kind_id)(data, name)
    except ConversionError as error:
        return refused(error, started)
    assert time.process_time() - started < SECONDS
    assert converted.content.strip()
    at = 0
    for locator in converted.locators:
        assert at <= locator.start_char < locator.end_char <= len(converted.content)
        assert locator.first <= locator.last
        at = locator.end_char
    assert all(len(removed.text) <= 200 and removed.times > 0 for removed in shortened(converted.removed))
    return converted


def refused(error: ConversionError, started: float) -> ConversionError:
    assert time.process_time() - started < SECONDS
    assert error.code in CODES
    assert_says_what_to_do(error)
    return error


@pytest.mark.parametrize("name", SAMPLES)
def test_a_whole_file_converts(name: str) -> None:
    data = SAMPLES[name]
    assert isinstance(convert(recognise(data, name).id, data, name), Converted)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_cut_file_is_text_or_an_error(name: str) -> None:
    data = SAMPLES[name]
    kind_id = recognise(data, name).id
    for tenth in range(10):
        cut = data[: len(data) * tenth // 10]
        convert(kind_id, cut, name)
        assert recognise(cut, name)


@pytest.mark.parametrize("name", SAMPLES)
def test_flipped_bits_are_text_or_an_error(name: str) -> None:
    data = SAMPLES[name]
    kind_id = recognise(data, name).id
    chance = random.Random(name)
    for _ in range(N_DAMAGED):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        convert(kind_id, bytes(damaged), name)
        assert recognise(bytes(damaged), name)


@pytest.mark.parametrize("kind_id", [recognise(data, name).id for name, data in SAMPLES.items()])
@pytest.mark.parametrize("other", SAMPLES)
def test_a_file_of_another_format_is_text_or_an_error(kind_id: str, other: str) -> None:
    convert(kind_id, SAMPLES[other], "имя קובץ.bin")


@pytest.mark.parametrize("kind_id", sorted({recognise(data, name).id for name, data in SAMPLES.items()}))
@pytest.mark.parametrize("data", [b"", b" \n\n", b"\x00" * 5000, b"\xff\xfe", b"\xef\xbb\xbf"])
def test_an_empty_file_is_an_error(kind_id: str, data: bytes) -> None:
    result = convert(kind_id, data, "empty")
    assert isinstance(result, ConversionError)
    assert result.code in ("no_text", "broken")


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            archive.writestr(path, data)
    return buffer.getvalue()


BILLION_LAUGHS = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><container>&b;</container>'
EXTERNAL = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><container>&a;</container>'
)

N = 30_000
HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "nested elements": ("html", lambda: b"<div>" * N + b"deep"),
    "nested formats": ("html", lambda: b"<b><p>" * N + b"deep"),
    "different formats": ("html", lambda: b"".join(b"<b c=%d><p>x" % i for i in range(N // 4))),
    "a million ends": ("html", lambda: b"<i>" + b"<b>" * 140 + b"<table>" + b"</i>" * N + b"x"),
    "many elements": ("html", lambda: b"<p>x</p>" * N),
    "many attributes": ("html", lambda: b"<p " + b" ".join(b"a%d=1" % i for i in range(N)) + b">x"),
    "a huge attribute": ("html", lambda: b"<p class='" + b"x " * N * 5 + b"'>x"),
    "open tags": ("html", lambda: b"<" * N + b"x"),
    "open quotes": ("html", lambda: b"<a '" * N + b"x"),
    "open comments": ("html", lambda: b"x<!--" * N),
    "open scripts": ("html", lambda: b"x<script></script" * N),
    "huge references": ("html", lambda: b"x&#" + b"9" * N + b";&#x" + b"f" * N + b";"),
    "nested lists": ("html", lambda: b"<ul><li>x" * N),
    "nested quotes": ("html", lambda: b"<blockquote>x" * N),
    "nested tables": ("html", lambda: b"<table><tr><td>x" * N),
    "a wide table": ("html", lambda: b"<table>" + (b"<tr>" + b"<td colspan=9999>x" * 300) * 50),
    "nested main parts": ("html", lambda: b"<div class=content>" * N + b"x"),
    "backticks": ("html", lambda: b"<pre>" + b"`" * N * 5),
    "hidden text": ("html", lambda: b"x<p style='" + b"display" * N + b"'>x"),
    "nested json": ("notebook", lambda: b'{"nbformat":4,"cells":' + b"[" * N),
    "a huge number": ("notebook", lambda: b'{"nbformat":4,"cells":[{"a":' + b"9" * N + b"}]}"),
    "many cells": (
        "notebook",
        lambda: json.dumps({"nbformat": 4, "cells": [{"cell_type": "raw", "source": "x"}] * 50_000}).encode(),
    ),
    "many outputs": (
        "notebook",
        lambda: json.dumps(
            {
                "nbformat": 4,
                "cells": [{"cell_type": "code", "source": "x", "outputs": [{"text": "y" * 9}] * N}],
            }
        ).encode(),
    ),
    "nested parts": (
        "eml",
        lambda: (
            b"MIME-Version: 1.0\n"
            + b"".join(
                b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(5000)
            )
        ),
    ),
    "many parts": (
        "eml",
        lambda: (
            b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * N + b"--b--"
        ),
    ),
    "a part that holds itself": (
        "eml",
        lambda: (
            b"From: a\nContent-Type: multipart/mixed; boundary=b\n\n"
            + b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * N
        ),
    ),
    "messages in messages": ("eml", lambda: b"From: a\nContent-Type: message/rfc822\n\n" * N + b"x"),
    "an endless header": ("eml", lambda: b"Subject: " + b"=?utf-8?q?x?= " * N),
    "many headers": ("eml", lambda: b"X-A: b\n" * N + b"\nx"),
    "many parameters": ("eml", lambda: b"From: a\nContent-Type: multipart/mixed" + b";" * 250_000 + b"\n\nx"),
    "open quotes in parameters": (
        "eml",
        lambda: b'From: a\nContent-Type: multipart/mixed; a="' + b";" * 250_000 + b"\n\nx",
    ),
    "many blanks": ("eml", lambda: b"From: a\n\n" + b" " * 500_000 + b"x"),
    "bad base64": ("eml", lambda: b"From: a\nContent-Transfer-Encoding: base64\n\n" + b"=" * N * 5),
    "many messages": ("mbox", lambda: b"From a 2024\nSubject: x\n\nx\n\n" * 5000),
    "no messages": ("mbox", lambda: b"From a 2024\nSubject: x\n\n" + b"\nFrom \n" * N),
    "nested directives": (
        "rst",
        lambda: b"\n".join(b" " * 3 * i + b".. note::\n" for i in range(400)) + b"x",
    ),
    "nested items": ("rst", lambda: b"\n\n".join(b" " * 2 * i + b"- x" for i in range(500))),
    "open roles": ("rst", lambda: b":a:`" * N),
    "open links": ("rst", lambda: b"`x <" * N),
    "underlines": ("rst", lambda: b"x\n=\n" * N),
    "rules": ("rst", lambda: b"== ==\n" * N),
    "a wide grid": ("rst", lambda: b"+" + b"-+" * 50_000 + b"\n" + b"|x" * 50_000 + b"|\n"),
    "nested code": ("source", lambda: b"x = " + b"(" * N),
    "a long sum": ("source", lambda: b"x = " + b"-" * N + b"1"),
    "many functions": ("source", lambda: b"def f():\n    pass\n\n" * 30_000),
    "a long line": ("source", lambda: b"data " * N),
    "modifiers": ("source", lambda: (b"public static " * 20 + b"\n") * 5000),
    "many cues": ("subtitles", lambda: b"WEBVTT\n\n" + b"00:01.000 --> 00:02.000\nx\n\n" * 50_000),
    "open voices": ("subtitles", lambda: b"WEBVTT\n\n00:01.000 --> 00:02.000\n" + b"<v " * N),
    "many times": ("transcript", lambda: b"[00:01] a: b\n" * 50_000),
    "colons": ("transcript", lambda: b"a" * N + b":" * N + b"\n[00:01] x"),
    "many frames": ("transcript", lambda: b"## Frame at 00:01\nx\n" * 50_000),
    "an entity bomb": ("epub", lambda: zipped({"META-INF/container.xml": BILLION_LAUGHS})),
    "an external entity": ("epub", lambda: zipped({"META-INF/container.xml": EXTERNAL})),
    "a large member": ("epub", lambda: epub(extra={"OEBPS/nav.xhtml": "x" * 40_000_000})),
    "many chapters": ("epub", lambda: epub(chapters={f"{i}.xhtml": "<p>x</p>" for i in range(3000)})),
    "nested xml": ("epub", lambda: zipped({"META-INF/container.xml": b"<a>" * N})),
    "a path out of the book": (
        "epub",
        lambda: zipped(
            {"META-INF/container.xml": b'<container><rootfile full-path="../../etc/passwd"/></container>'}
        ),
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_takes_bounded_time(case: str) -> None:
    kind_id, make = HOSTILE[case]
    convert(kind_id, make(), "hostile.py")


def test_a_bomb_of_chapters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_PACKAGE_BYTES", 4_000_000)
    bomb = epub(chapters={f"{i}.xhtml": "<p>" + "x" * 1_000_000 + "</p>" for i in range(6)})
    assert len(bomb) < 50_000
    result = convert("epub", bomb, "bomb.epub")
    assert isinstance(result, ConversionError)
    assert result.code == "too_large"


def test_entities_are_refused() -> None:
    for data in (BILLION_LAUGHS, EXTERNAL):
        result = convert("epub", zipped({"META-INF/container.xml": data}), "a.epub")
        assert isinstance(result, ConversionError)
        assert result.code == "broken"


def test_time_grows_with_the_size_of_a_page() -> None:
    times = []
    for copies in (8, 32):
        page = HTML.replace(
            "</article>",
            "<p>Some <b>more</b> text.</p><table><tr><td>a<td>b<tr><td>c<td>d</table>" * 30 * copies,
        ).encode()
        best = min(timed(page) for _ in range(3))
        times.append(best)
    assert times[1] < 8 * times[0], "four times the page should take about four times as long"


def timed(page: bytes) -> float:
    started = time.process_time()
    convert("html", page, "a.html")
    return time.process_time() - started
