"""Recordings: a chunk for each window, the modality and the times of passages, and the evidence around one."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.cli import main
from shoal.cli.session import json_form
from shoal.client.requests import decode
from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.formats.drafts import make_draft
from shoal.formats.parsing import find_windows, parse
from shoal.integrations.passages import passages_of
from shoal.models.files import FilePlace, Locator, LocatorKind, SourceFile, timecode
from shoal.models.recordings import Modality, ShownChunk, ShownEvidence
from shoal.models.search import SearchResponse
from shoal.settings import Settings
from shoal.storage import chunk_queries
from shoal.storage.chunk_queries import modality_of
from shoal_api import create_app

SUBJECTS = (
    "Rain falls on the monsoon coast.",
    "Lava cools to basalt rock and granite.",
    "The court heard a witness.",
)
N_MINUTES = 9


def minute(number: int) -> str:
    """A word for each minute."""
    return f"z{chr(ord('a') + number)}x"


def transcript(frames: dict[int, str], n_seconds: int = 60 * N_MINUTES, step: int = 10) -> str:
    """A transcript that names its minute, with the sections of frames after it."""
    lines = [
        f"[{timecode(at)}] {SUBJECTS[at // 60 % 3]} We are in {minute(at // 60)}."
        for at in range(0, n_seconds, step)
    ]
    for at, text in frames.items():
        lines += ["", f"# Visual Frame at {timecode(at)}", "", text, "", "It has a second paragraph."]
    return "\n".join(lines)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def store(engine: Engine, folder: Path, text: str, name: str = "lecture.txt", **fields: Any) -> int:
    file = folder / name
    file.write_text(text, "utf-8")
    result = engine.ingest_file(file, **fields)
    assert result.id is not None, result.error
    return result.id


def spans(found: Any) -> list[tuple[str, str, str]]:
    return [(chunk.modality.value, chunk.time_start, chunk.time_end) for chunk in found.evidence.chunks]


def find(engine: Engine, query: str, **options: Any) -> Any:
    return engine.search(query, mode="lexical", expand="time", **options).results[0]


def test_each_window_is_one_chunk(engine: Engine, tmp_path: Path) -> None:
    document_id = store(engine, tmp_path, transcript({65: "A diagram of a volcano.", 200: "A bare slide."}))
    chunks = engine.documents.chunks(document_id).chunks
    expected = [("video_transcript", timecode(60 * n), timecode(60 * n + 60)) for n in range(N_MINUTES - 1)]
    last = ("video_transcript", timecode(60 * (N_MINUTES - 1)), timecode(60 * N_MINUTES - 5))
    frames = [("video_frame", timecode(at), timecode(at)) for at in (65, 200)]
    found = [(chunk.modality.value, chunk.time_start, chunk.time_end) for chunk in chunks]
    assert found == [*expected, last, *frames]
    assert chunks[-1].text == "A bare slide.\n\nIt has a second paragraph."
    content = engine.documents.content(document_id)
    assert all(content[chunk.start_char : chunk.end_char] == chunk.text for chunk in chunks)


def test_windows_are_the_same_each_time(engine: Engine, settings: Settings, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({65: "A diagram."}))
    with Engine(f"{tmp_path}/other.db", scorer=FakeScorer()) as other:
        store(other, tmp_path, transcript({65: "A diagram."}))
        both = [
            [
                (chunk.start_char, chunk.end_char, chunk.time_start)
                for chunk in each.documents.chunks(1).chunks
            ]
            for each in (engine, other)
        ]
    assert both[0] == both[1]


def test_a_rescore_keeps_the_windows(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({65: "A diagram."}))
    before = engine.documents.chunks(1).chunks
    with engine.database.write() as transaction:
        transaction.execute("UPDATE chunks SET data_checksum = 'other'")
    result = engine.maintenance.rescore()
    assert result.failed == ()
    after = engine.documents.chunks(1).chunks
    assert [(chunk.id, chunk.place) for chunk in after] == [(chunk.id, chunk.place) for chunk in before]


def test_a_window_longer_than_a_chunk_is_cut(settings: Settings) -> None:
    content = "Rain falls. " * 40 + "\n\nLava cools."
    locators = (
        Locator(0, 479, LocatorKind.time, "", 0.0, 60.0),
        Locator(482, 493, LocatorKind.time, "", 60.0, 62.0),
    )
    draft = dataclasses.replace(
        make_draft(content=content, title="t", settings=settings),
        file=SourceFile("subtitles", "", "0" * 64, 1, 1, locators),
    )
    assert find_windows(content, locators) == [(0, 479), (482, 493)]
    assert len(parse(draft, max_block_chars=500).sentences) == 2
    cut = parse(draft, max_block_chars=300).sentences
    assert len(cut) == 41
    assert all(end - start <= 300 for start, end, _ in cut)


def test_evidence_of_speech_reaches_15_seconds(engine: Engine, tmp_path: Path) -> None:
    frames = {224: "Frame one.", 225: "Frame two.", 315: "Frame three.", 316: "Frame four."}
    store(engine, tmp_path, transcript(frames))
    found = find(engine, "zex")
    assert (found.time_start, found.time_end) == ("00:04:00", "00:05:00")
    assert (found.evidence.time_start, found.evidence.time_end) == ("00:03:45", "00:05:15")
    speech, frame = "video_transcript", "video_frame"
    assert spans(found) == [
        (speech, "00:03:00", "00:04:00"),
        (frame, "00:03:45", "00:03:45"),
        (speech, "00:04:00", "00:05:00"),
        (speech, "00:05:00", "00:06:00"),
        (frame, "00:05:15", "00:05:15"),
    ]
    assert [chunk.is_anchor for chunk in found.evidence.chunks] == [False, False, True, False, False]


def test_evidence_of_a_frame_reaches_10_seconds(engine: Engine, tmp_path: Path) -> None:
    frames = {130: "A zeppelin.", 140: "Second.", 141: "Third.", 119: "Zeroth.", 120: "First."}
    store(engine, tmp_path, transcript(frames))
    found = find(engine, "zeppelin")
    assert found.modality is Modality.video_frame
    assert (found.evidence.time_start, found.evidence.time_end) == ("00:02:00", "00:02:20")
    assert spans(found) == [
        ("video_transcript", "00:01:00", "00:02:00"),
        ("video_frame", "00:02:00", "00:02:00"),
        ("video_transcript", "00:02:00", "00:03:00"),
        ("video_frame", "00:02:10", "00:02:10"),
        ("video_frame", "00:02:20", "00:02:20"),
    ]


def test_evidence_stays_within_the_recording(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({}))
    first, last = find(engine, "zax"), find(engine, minute(N_MINUTES - 1))
    assert (first.evidence.time_start, first.evidence.time_end) == ("00:00:00", "00:01:15")
    assert (last.evidence.time_start, last.evidence.time_end) == ("00:07:45", "00:08:55")
    assert [chunk.chunk_index for chunk in last.evidence.chunks] == [N_MINUTES - 2, N_MINUTES - 1]


def test_recording_of_one_chunk_is_its_own_evidence(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({}, n_seconds=30))
    found = find(engine, "zax")
    assert [(chunk.chunk_id, chunk.is_anchor) for chunk in found.evidence.chunks] == [(found.chunk_id, True)]


def test_evidence_is_of_one_document_only(engine: Engine, tmp_path: Path) -> None:
    one = store(engine, tmp_path, transcript({}))
    store(engine, tmp_path, transcript({}).replace("We are in z", "We are in y"), "other.txt")
    found = find(engine, "zex")
    assert found.document_id == one
    assert all("We are in z" in chunk.text for chunk in found.evidence.chunks)


def test_overlapping_anchors_have_a_bundle_each(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({}))
    response = engine.search("zdx zex", mode="lexical", expand="time")
    bundles = {result.time_start: result.evidence for result in response.results}
    assert {start: [c.chunk_index for c in bundle.chunks] for start, bundle in bundles.items() if bundle} == {
        "00:03:00": [2, 3, 4],
        "00:04:00": [3, 4, 5],
    }
    [passage] = passages_of(response, merge=True)
    lines = passage.text.splitlines()
    assert [line[:28] for line in lines] == [
        f'{timecode(60 * n)}–{timecode(60 * n + 60)} (Audio): "' for n in range(2, 6)
    ]
    assert lines[0].endswith('zcx."')
    assert passage.metadata["modality"] == "video_transcript"
    json.dumps(passage.metadata)


def test_bundle_of_a_hostile_file_is_bounded_and_has_its_anchor(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_queries, "MAX_EVIDENCE_CHUNKS", 3)
    frames = "".join(f"\n\n# Frame at 00:01:40\n\nAnother of number{n}.\n" for n in range(9))
    store(engine, tmp_path, transcript({100: "A zeppelin."}) + frames)
    for word in ("zeppelin", "number8"):
        chunks = find(engine, word).evidence.chunks
        assert len(chunks) == 3
        assert [word in chunk.text for chunk in chunks if chunk.is_anchor] == [True]


def test_text_has_no_times_and_no_evidence(engine: Engine) -> None:
    engine.ingest(title="Notes", content="Rain falls on the coast.", metadata={"modality": "ocr"})
    found = find(engine, "rain")
    assert (found.modality, found.time_start, found.time_end, found.evidence) == ("ocr", None, None, None)


def test_evidence_is_added_on_request_only(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({}))
    found = engine.search("zex").results[0]
    assert found.evidence is None
    assert found.time_start == "00:04:00"
    with pytest.raises(QueryError, match="none, time"):
        engine.search("zex", expand="space")


def test_every_citation_of_a_recording_has_name_and_time(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({65: "A diagram of rain.", 200: "A slide of lava."}))
    for query in ("rain coast", "lava rock", "court witness", "second paragraph"):
        for found in engine.search(query, max_per_document=0, expand="time").results:
            assert found.document_title == "Lecture"
            assert found.place is not None
            assert (found.time_start, found.time_end) == (
                timecode(found.place.first),
                timecode(found.place.last),
            )
            assert found.evidence is not None
            starts = [chunk.time_start for chunk in found.evidence.chunks]
            assert starts == sorted(starts)
            assert [chunk.chunk_id for chunk in found.evidence.chunks if chunk.is_anchor] == [found.chunk_id]


def test_client_decodes_what_the_engine_returns(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({65: "A diagram of rain."}))
    response = engine.search("rain", expand="time", include_scores=True)
    assert decode(SearchResponse, json.loads(json.dumps(json_form(response)))) == dataclasses.replace(
        response, results=tuple(response.results)
    )


@pytest.mark.parametrize(
    ("kind", "headings", "metadata", "path", "modality"),
    [
        (None, ("Frame at 00:01:00",), {}, "a.md", "text"),
        (LocatorKind.page, (), {}, "a.pdf", "text"),
        (LocatorKind.page, (), {"modality": "ocr"}, "a.pdf", "ocr"),
        (LocatorKind.page, (), {"modality": "smell"}, "a.pdf", "text"),
        (LocatorKind.page, (), {"modality": ["ocr"]}, "a.pdf", "text"),
        (LocatorKind.time, (), {}, "talk.vtt", "video_transcript"),
        (LocatorKind.time, (), {}, None, "video_transcript"),
        (LocatorKind.time, (), {}, "folder/talk.MP3.vtt", "audio_transcript"),
        (LocatorKind.time, (), {"modality": "audio_transcript"}, "talk.vtt", "audio_transcript"),
        (
            LocatorKind.time,
            ("Visual Frame at 00:01:00",),
            {"modality": "audio_transcript"},
            "",
            "video_frame",
        ),
        (LocatorKind.time, ("Frame at last",), {}, "", "video_transcript"),
    ],
)
def test_modality(
    kind: LocatorKind | None, headings: tuple[str, ...], metadata: Any, path: str | None, modality: str
) -> None:
    place = FilePlace.of(kind, "", 1, 2) if kind else None
    assert modality_of(place, headings, metadata, path) == modality


def test_a_prompt_has_the_evidence_of_close_results_once(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({65: "A diagram of a volcano."}))
    response = engine.search("zbx zcx diagram", mode="lexical", expand="time", prompt=True, top_k=3)
    repeated = [chunk.text for result in response.results for chunk in result.evidence.chunks]  # type: ignore[union-attr]
    assert len(repeated) > len(set(repeated))
    text = response.prompt.text  # type: ignore[union-attr]
    for shown in set(repeated):
        assert text.count(" ".join(shown.split())) == 1
    assert re.search(r"\n    00:01:05 \(Screen\): see \[\d\]", text)


def test_evidence_that_an_earlier_result_has_shown_is_left_out() -> None:
    def passage(chunk_id: int, minute: int, *, is_anchor: bool = False) -> ShownChunk:
        times = {"time_start": f"00:0{minute}:00", "time_end": f"00:0{minute + 1}:00"}
        return ShownChunk(
            chunk_id=chunk_id,
            modality="video_transcript",
            text=f"Part {minute}.",
            is_anchor=is_anchor,
            **times,
        )

    shown = ShownEvidence()
    assert shown.lines(1, [passage(7, 0), passage(8, 1, is_anchor=True)]) == [
        '00:00:00–00:01:00 (Audio): "Part 0."',
        '00:01:00–00:02:00 (Audio): "Part 1."',
    ]
    assert shown.lines(2, [passage(7, 0, is_anchor=True), passage(8, 1)]) == [
        "00:00:00–00:01:00 (Audio): see [1]"
    ]
    assert shown.lines(3, [passage(8, 1), passage(9, 2, is_anchor=True)]) == [
        '00:02:00–00:03:00 (Audio): "Part 2."'
    ]


def test_the_command_line_prints_the_evidence_of_close_results_once(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(engine, tmp_path, transcript({}))
    with pytest.raises(SystemExit):
        main(["--db", str(engine.settings.database_path), "search", "zbx zcx", "--expand", "time"])
    printed = " ".join(capsys.readouterr().out.split())
    quoted = re.findall(r'(\d\d:\d\d:\d\d)–\d\d:\d\d:\d\d \(Audio\): "', printed)
    assert sorted(quoted) == sorted(set(quoted))
    assert "(Audio): see [1]" in printed


def test_the_console_shows_the_evidence_of_close_results_once(engine: Engine, tmp_path: Path) -> None:
    store(engine, tmp_path, transcript({}))
    client = create_app(engine.settings, engine=engine).test_client()
    page = client.get("/?q=zbx+zcx&mode=lexical").get_data(as_text=True)
    lines = re.findall(r"<p>(\d\d:\d\d:\d\d)–\d\d:\d\d:\d\d \(Audio\): ", page)
    # Minutes 1 and 2 are results; around them are minutes 0 and 3.
    assert sorted(lines) == ["00:00:00", "00:03:00"]
