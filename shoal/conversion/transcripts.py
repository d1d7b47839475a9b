"""Converters of subtitles and transcripts: paragraphs of about a minute, with the time of each line.

A line of a speaker keeps the name, as in "Ann: Hello". Headings `## Frame at 00:01:04` stay sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shoal.conversion.converted import ConversionError, Converted, TextBuilder, escaped, heading, one_line
from shoal.conversion.html_tree import unescape
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.recognition import read_frame_heading, read_range, read_timed_line
from shoal.conversion.texts import decode_text
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind

WINDOW_SECONDS = 60.0
"""A paragraph ends when a line begins so much later than the paragraph."""

_LAST_LINE_SECONDS = 5.0  # of the last line of a transcript that has no ends
_MIN_TURNS = 2  # of a name before a colon that is a speaker
_NAMED_SHARE = 0.5
_SPEAKER = re.compile(r"(?:>>+[ \t]*)?([^\W\d_][\w.'’ -]{0,40}?):[ \t]+(?=\S)|(?:>>+[ \t]*)")
_VOICE = re.compile(r"<v(?:\.[\w.]*)?[ \t]+([^<>]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|<\d[\d:.]{3,15}>|\{\\?[a-zA-Z][^{}]{0,100}\}")
_NUMBER = re.compile(r"\d+[ \t]*")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_BLOCKS = ("NOTE", "STYLE", "REGION")


class Cue(NamedTuple):
    """What is said between two times, in seconds."""

    start: float
    end: float
    speaker: str
    text: str


def convert_subtitles(data: bytes, name: str) -> Converted:
    """Convert VTT or SRT."""
    removed = RemovedTexts()
    text = TextBuilder()
    cues = _without_repeats(_subtitle_cues(decode_text(data), removed), removed)
    _write_cues(text, _with_speakers(list(cues)))
    if not text.length:
        raise ConversionError("no_text", "the file has no subtitle with a time and words")
    return Converted(text.content(), DocFormat.markdown, "", tuple(text.locators), removed.listed())


def convert_transcript(data: bytes, name: str) -> Converted:
    """Convert a text with times at its lines, or with sections of frames."""
    text = TextBuilder()
    cues: list[_OpenCue] = []
    prose: list[str] = []
    frame: tuple[float, float] | None = None
    for line in decode_text(data).split("\n"):
        stripped = line.strip()
        is_heading = _HEADING.match(stripped) is not None
        # Times in the description of a frame are no lines of speech, unless they are in brackets.
        timed = None if is_heading or (frame and stripped[:1] not in "[(") else read_timed_line(stripped)
        if is_heading:
            _write_section(text, cues, prose, frame)
            frame = read_frame_heading(stripped)
            prose = [stripped]
            if frame is None:
                _write_section(text, cues, prose, None)
        elif timed is not None:
            if prose:
                _write_section(text, cues, prose, frame)
            if frame is not None:
                text.block(heading(2, f"Transcript from {_clock(timed.start)}"))
                frame = None
            cues.append(_OpenCue(timed.start, timed.end, timed.speaker, [timed.text]))
        elif cues and stripped:
            cues[-1].lines.append(stripped)
        elif stripped or prose:
            prose.append(line.rstrip())
    _write_section(text, cues, prose, frame)
    if not text.length:
        raise ConversionError("no_text", "the transcript has no text")
    return Converted(text.content(), DocFormat.markdown, "", tuple(text.locators))


class _OpenCue(NamedTuple):
    start: float
    end: float | None
    speaker: str
    lines: list[str]


def _write_section(
    text: TextBuilder, cues: list[_OpenCue], prose: list[str], frame: tuple[float, float] | None
) -> None:
    """Write the open lines of the transcript, or those of a frame or other text, and forget them."""
    if cues:
        _write_cues(text, _with_speakers(_with_ends(cues)))
        cues.clear()
    if any(line.strip() for line in prose):
        first, *rest = prose
        body = (
            "\n".join([first, *(escaped(line) for line in rest)])
            if _HEADING.match(first)
            else "\n".join(map(escaped, prose))
        )
        start = text.block(body.strip("\n"))
        if frame is not None:
            text.locate(start, LocatorKind.time, "", *frame)
    prose.clear()


def _clock(seconds: float) -> str:
    minutes, secs = divmod(int(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{secs:02}"


def _with_ends(cues: list[_OpenCue]) -> list[Cue]:
    """Give each line the end that it has, else the start of the next one."""
    following = [cue.start for cue in cues[1:]] + [cues[-1].start + _LAST_LINE_SECONDS]
    ended: list[Cue] = []
    for cue, later in zip(cues, following, strict=True):
        end = max(cue.start, later) if cue.end is None else cue.end
        ended.append(Cue(cue.start, end, cue.speaker, one_line(" ".join(cue.lines))))
    return ended


def _subtitle_cues(content: str, removed: RemovedTexts) -> Iterator[Cue]:
    time: tuple[float, float] | None = None
    lines: list[str] = []
    passed_over = ""
    for line in [*content.lstrip("\ufeff").split("\n"), ""]:
        stripped = line.strip()
        times = read_range(stripped) if "-->" in stripped else None
        if times is not None:
            if time is not None:
                # The line above may be the number of this cue.
                yield from _cue(time, lines[:-1] if lines and _NUMBER.fullmatch(lines[-1]) else lines)
            time, lines, passed_over = times, [], ""
        elif passed_over:
            if stripped:
                removed.add(passed_over, stripped)
            else:
                passed_over = ""
        elif not stripped:
            if time is not None and lines:
                yield from _cue(time, lines)
                time, lines = None, []
        elif time is not None:
            lines.append(stripped)
        elif stripped.startswith(_BLOCKS):
            passed_over = {"N": "comment", "S": "style", "R": "style"}[stripped[0]]
            if stripped[4:].strip() and passed_over == "comment":
                removed.add(passed_over, stripped[4:])
    if time is not None:
        yield from _cue(time, lines)


def _cue(time: tuple[float, float], lines: list[str]) -> Iterator[Cue]:
    speaker = ""
    words: list[str] = []
    for line in lines:
        voice = _VOICE.search(line)
        speaker = voice.group(1).strip() if voice and not speaker else speaker
        text = one_line(unescape(_TAG.sub("", line)))
        if text:
            words.append(text)
    if words:
        yield Cue(*time, speaker, "\n".join(words))


def _without_repeats(cues: Iterable[Cue], removed: RemovedTexts) -> Iterator[Cue]:
    """Drop the lines that captions of live speech show again in the next cue."""
    shown: list[str] = []
    for cue in cues:
        lines = cue.text.split("\n")
        fresh = list(lines)
        while fresh and shown and fresh[0] == shown[-1]:
            removed.add("repeated caption", fresh.pop(0))
        shown = lines
        if fresh:
            yield cue._replace(text=" ".join(fresh))


def _with_speakers(cues: list[Cue]) -> list[Cue]:
    """Read names before a colon as speakers, if they are given more than once."""
    matches = [None if cue.speaker else _SPEAKER.match(cue.text) for cue in cues]
    turns = Counter(match.group(1) for match in matches if match and match.group(1))
    # Where most lines begin with a name, one that comes only once is a speaker as well.
    n_turns = 1 if turns.total() >= _NAMED_SHARE * len(cues) else _MIN_TURNS
    named: list[Cue] = []
    for cue, match in zip(cues, matches, strict=True):
        if match is None or (match.group(1) and turns[match.group(1)] < n_turns):
            named.append(cue)
        else:
            named.append(cue._replace(speaker=match.group(1) or "", text=cue.text[match.end() :]))
    return named


def _write_cues(text: TextBuilder, cues: list[Cue]) -> None:
    """Write paragraphs of about a minute; a change of the speaker begins a line."""
    window_start: float | None = None
    speaker = ""
    for cue in cues:
        if not cue.text.strip():
            continue
        is_new = window_start is None or not 0 <= cue.start - window_start < WINDOW_SECONDS
        says = cue.speaker and (is_new or cue.speaker != speaker)
        line = f"{cue.speaker}: {cue.text}" if says else cue.text
        if is_new:
            window_start = cue.start
            start = text.block(escaped(line))
        else:
            separator = "\n" if says else " "
            start = text.block(escaped(line) if says else line, separator)
        speaker = cue.speaker or speaker
        text.locate(start, LocatorKind.time, speaker, cue.start, cue.end)
