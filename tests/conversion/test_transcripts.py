"""Subtitles and transcripts: paragraphs of about a minute, and the time and speaker of each line."""

from __future__ import annotations

import pytest
from converters import convert_subtitles, convert_transcript
from sample_files import SRT, TRANSCRIPT, VTT

from shoal.conversion.converted import Converted
from shoal.conversion.recognition import read_frame_heading, read_timed_line
from shoal.conversion.transcripts import WINDOW_SECONDS
from shoal.formats.markdown import parse_markdown
from shoal.models.files import LocatorKind


def said(converted: Converted) -> list[tuple[str, str, float, float]]:
    assert {locator.kind for locator in converted.locators} == {LocatorKind.time}
    return [
        (converted.content[locator.start_char : locator.end_char], locator.name, locator.first, locator.last)
        for locator in converted.locators
    ]


def test_vtt_keeps_times_and_speakers() -> None:
    converted = convert_subtitles(VTT.encode(), "a.vtt")
    assert said(converted) == [
        ("Ann Lee: Welcome to the lecture & thanks.", "Ann Lee", 1.0, 4.0),
        ("Today we talk about tides.", "Ann Lee", 4.0, 9.5),
        ("Bob: Why do they rise?", "Bob", 65.0, 68.0),
        ("Ann Lee: Because of the moon.", "Ann Lee", 3600.0, 3602.0),
    ]
    assert {(removed.reason, removed.text) for removed in converted.removed} == {
        ("style", "::cue { color: red }"),
        ("comment", "this is a comment"),
    }


def test_srt_loses_repeated_captions() -> None:
    converted = convert_subtitles(SRT.encode(), "a.srt")
    assert converted.content == "Welcome to the lecture. Today: tides.\n\nGoodbye."
    assert [removed.reason for removed in converted.removed] == ["repeated caption"]
    assert said(converted)[2] == ("Goodbye.", "", 90.5, 92.0)


def test_paragraphs_span_about_a_minute() -> None:
    cues = "".join(
        f"{n}\n00:{4 * n // 60:02}:{4 * n % 60:02},000 --> 00:{4 * n // 60:02}:{4 * n % 60 + 3:02},000\nLine {n}.\n\n"
        for n in range(200)
    )
    converted = convert_subtitles(cues.encode(), "a.srt")
    paragraphs = converted.content.split("\n\n")
    assert len(paragraphs) == 14
    at = 0
    for paragraph in paragraphs:
        inside = [locator for locator in converted.locators if at <= locator.start_char < at + len(paragraph)]
        assert inside[-1].first - inside[0].first < WINDOW_SECONDS
        at += len(paragraph) + 2


def test_transcripts_and_frames_follow_each_other() -> None:
    converted = convert_transcript(TRANSCRIPT.encode(), "a.md")
    assert said(converted) == [
        ("Ann: Welcome to the lecture.", "Ann", 0.0, 20.0),
        ("Bob: Thank you. It is good to be here.", "Bob", 20.0, 50.0),
        ("Ann: Look at the slide.", "Ann", 64.0, 70.0),
        ("## Frame at 00:01:04\n\nA diagram of the moon at 10:30 in the evening.", "", 64.0, 64.0),
        ("# Visual Frame at 00:02:10\n\nA photo of a harbour.", "", 130.0, 130.0),
    ]
    assert "## Summary\n\nTides rise and fall." in converted.content
    assert [section.heading for section in parse_markdown(converted.content).sections] == [
        "Lecture on tides",
        "Frame at 00:01:04",
        "Visual Frame at 00:02:10",
        "Summary",
    ]


def test_speech_after_a_frame_is_not_part_of_the_frame() -> None:
    text = "[00:00:01] Before.\n## Frame at 00:00:05\nA slide.\n[00:00:08] After.\n[00:00:12] Later."
    converted = convert_transcript(text.encode(), "a.md")
    assert (
        converted.content
        == "Before.\n\n## Frame at 00:00:05\nA slide.\n\n## Transcript from 00:00:08\n\nAfter. Later."
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[00:01:05] Hello", (65.0, None, "", "Hello")),
        ("[00:01:05 - 00:01:18] Hello", (65.0, 78.0, "", "Hello")),
        ("[00:01:05.250 --> 00:01:18.500]  Hello", (65.25, 78.5, "", "Hello")),
        ("[00:01:05-00:01:18]", (65.0, 78.0, "", "")),
        ("00:01:05–00:01:18 (Audio): Hello", (65.0, 78.0, "", "(Audio): Hello")),
        ("1:05 Hello", (65.0, None, "", "Hello")),
        ("(01:05) Hello", (65.0, None, "", "Hello")),
        ("- 01:05: Hello", (65.0, None, "", "Hello")),
        ("01:05 - Hello", (65.0, None, "", "Hello")),
        ("Ann Lee (01:05): Hello", (65.0, None, "Ann Lee", "Hello")),
        ("Ann Lee [00:01:05 - 00:01:06] Hello", (65.0, 66.0, "Ann Lee", "Hello")),
        ("Speaker 1  0:05", (5.0, None, "Speaker 1", "")),
        ("דנה (01:05): שלום", (65.0, None, "דנה", "שלום")),
        ("[100:00:00] Late", (360000.0, None, "", "Late")),
        ("[01:05 - 00:05] Backwards", (65.0, None, "", "Backwards")),
        ("We met at 10:30 in the morning.", None),
        ("10:30.5.2", None),
        ("1:2:3:4 x", None),
        ("2024-01-01 10:30:00 log", None),
        ("10:75 no time", None),
        ("12:30pm lunch", None),
        ("Genesis 1:05 says", None),
    ],
)
def test_reads_the_time_of_a_line(line: str, expected: tuple[float, float | None, str, str] | None) -> None:
    assert read_timed_line(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("## Frame at 00:01:04", (64.0, 64.0)),
        ("# Visual Frame at 01:04", (64.0, 64.0)),
        ("### visual frame at 00:01:04 - 00:01:10", (64.0, 70.0)),
        ("## Frame at noon", None),
        ("Frame at 00:01:04", None),
        ("## Framework at 00:01:04", None),
    ],
)
def test_reads_headings_of_frames(line: str, expected: tuple[float, float] | None) -> None:
    assert read_frame_heading(line) == expected


def test_a_sentence_with_a_colon_is_no_speaker() -> None:
    converted = convert_transcript(b"[00:01] Note: this is one.\n[00:05] It goes on.\n[00:09] And on.", "")
    assert {locator.name for locator in converted.locators} == {""}


def test_right_to_left_text_keeps_its_order() -> None:
    converted = convert_subtitles(
        "WEBVTT\n\n00:01.000 --> 00:02.000\n<v דנה>שלום לכולם\n".encode(), "קובץ.vtt"
    )
    assert said(converted) == [("דנה: שלום לכולם", "דנה", 1.0, 2.0)]
