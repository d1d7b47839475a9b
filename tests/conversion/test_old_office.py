"""Files of Office before 2007: workbooks and messages are read, others by LibreOffice or refused with the
reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from compound_files import compound, msg, xls
from converters import convert_doc, convert_msg, convert_ppt, convert_workbook
from sample_files import assert_says_what_to_do

from shoal.conversion.converted import ConversionError
from shoal.conversion.outlook import unpack_rtf
from shoal.conversion.process import ConversionProcess
from shoal.conversion.recognition import recognise

ROWS: list[list[str | float]] = [["Port", "Height"], ["Brest", 7.25], ["Saint-Malo", 12.0]]
DOC = compound({"WordDocument": bytes(5000), "1Table": b"x"})
PPT = compound({"PowerPoint Document": bytes(5000)})


def test_a_workbook_is_read_with_its_rows_as_places() -> None:
    converted = convert_workbook(xls({"Tides": ROWS, "Empty": [], "More": [["Notes"]]}), "tides.xls")
    assert "Port: Brest; Height: 7.25" in converted.content
    assert "Port: Saint-Malo; Height: 12\n" in converted.content
    assert [(place.name, place.first) for place in converted.locators] == [
        ("Tides", 2), ("Tides", 3), ("More", 1),
    ]  # fmt: skip


def test_a_workbook_with_a_password_is_refused_as_such() -> None:
    with pytest.raises(ConversionError) as refused:
        convert_workbook(xls({"Tides": ROWS}, is_encrypted=True), "tides.xls")
    assert refused.value.code == "encrypted"


@pytest.mark.parametrize("data", [b"", b"\x09\x00" * 50, DOC, compound({"Workbook": b"no records"})])
def test_what_is_no_workbook_is_broken(data: bytes) -> None:
    with pytest.raises(ConversionError) as refused:
        convert_workbook(data, "a.xls")
    assert refused.value.code in ("broken", "no_text")
    assert_says_what_to_do(refused.value)


@pytest.mark.parametrize(
    ("data", "name", "kind_id"),
    [
        (xls({"A": ROWS}), "a", "xls"),
        (xls({"A": ROWS}), "a.doc", "xls"),
        (compound({"WORKBOOK": bytes(9)}), "a", "xls"),
        (compound({"Book": bytes(9)}), "a.dat", "xls"),
        (DOC, "a", "doc"),
        (DOC, "a.dot", "doc"),
        (PPT, "a.bin", "ppt"),
        (compound({"WordDocument": b"", "ObjectPool": {"Workbook": b""}}), "a", "doc"),
        (compound({"Other": b""}), "a", "old_office"),
    ],
)
def test_streams_tell_the_kind(data: bytes, name: str, kind_id: str) -> None:
    assert recognise(data, name).id == kind_id


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (DOC, "letter.doc", "this is a .doc file; set SHOAL_OFFICE or save it as .docx"),
        (DOC, "", "this is a .doc file; set SHOAL_OFFICE or save it as .docx"),
        (PPT, "talk.PPS", "this is a .pps file; set SHOAL_OFFICE or save it as .pptx"),
    ],
)
def test_an_old_file_without_office_says_what_to_do(data: bytes, name: str, message: str) -> None:
    with ConversionProcess() as process, pytest.raises(ConversionError) as refused:
        process.convert(data, name)
    assert (refused.value.code, str(refused.value)) == ("missing_extra", message)


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(
        ConversionError, match=r"no-such-office, is not installed; install it or save"
    ) as refused:
        convert_doc(DOC, "a.doc", office="no-such-office")
    assert refused.value.code == "missing_extra"


def test_a_program_that_writes_nothing_leaves_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="cannot read it") as refused:
        convert_ppt(PPT, "a.ppt", office="true")
    assert refused.value.code == "broken"


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
@pytest.mark.slow
def test_libreoffice_reads_within_the_limits(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "a.html").write_text("<h1>Tides</h1><p>The moon pulls the sea.</p>")
    command = ["soffice", f"-env:UserInstallation={(tmp_path / 'p').as_uri()}", "--headless"]
    command += ["--convert-to", "doc:MS Word 97", "--outdir", str(tmp_path), str(tmp_path / "a.html")]
    subprocess.run(command, check=True, capture_output=True)
    with ConversionProcess() as process:
        converted = process.convert((tmp_path / "a.doc").read_bytes(), "a.doc", None, {"office": "soffice"})
    assert "# Tides" in converted.content
    assert "The moon pulls the sea." in converted.content


def test_a_message_of_outlook_reads_like_a_mail() -> None:
    data = msg(
        {
            "subject": "Tides – תגובה",
            "sender": ("Ann Müller", "ann@example.com"),
            "to": [("Bob, the captain", "bob@example.com"), ("Sales", "/o=Example/cn=sales")],
            "body": "The tide is high.",
            "sent": 133_485_408_000_000_000,
        },
        files={"port, plan.txt": b"Brest", "תוכנית.pdf": b"%PDF-1.7"},
        inner={"subject": "Older", "body": "The tide is low."},
    )
    converted = convert_msg(data, "a.msg")
    assert converted.content == (
        "# Tides – תגובה\n\nFrom: Ann Müller <ann@example.com>\n"
        'To: "Bob, the captain" <bob@example.com>, Sales\nDate: Mon, 01 Jan 2024 00:00:00 +0000\n\n'
        "The tide is high.\n\n## Older\n\nThe tide is low.\n\nAttachments: port, plan.txt, תוכנית.pdf"
    )
    assert converted.title == "Tides – תגובה"
    assert [(each.name, each.data) for each in converted.attachments] == [
        ("port, plan.txt", b"Brest"), ("תוכנית.pdf", b"%PDF-1.7"),
    ]  # fmt: skip
    assert converted.metadata["sender"] == "Ann Müller <ann@example.com>"
    assert converted.metadata["sent"] == "2024-01-01T00:00:00+00:00"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1255"])
def test_texts_in_bytes_have_the_encoding_of_the_message_unless_they_are_utf_8(encoding: str) -> None:
    fields = {"subject": "גאות", "body": "גאות ושפל", "sender": ("אן", "ann@example.com")}
    converted = convert_msg(msg(fields, encoding=encoding, code_page=1255), "a.msg")
    assert converted.title == "גאות"
    assert "From: אן <ann@example.com>" in converted.content
    assert "גאות ושפל" in converted.content


def test_a_message_with_a_body_of_rich_text_alone_has_its_text() -> None:
    rtf = b"{\\rtf1 The moon pulls the sea.}"
    packed = bytes(8) + b"MELA" + bytes(4) + rtf
    assert "The moon pulls the sea." in convert_msg(msg({"subject": "A", "rtf": packed}), "a.msg").content


def test_compressed_rich_text_is_unpacked() -> None:
    # The example of MS-OXRTFCP, 4.1.
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert unpack_rtf(packed) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    for length in range(16, len(packed)):
        assert unpack_rtf(packed[:length]).startswith(b"{\\rtf1"[: max(0, length - 20)])


def test_messages_within_messages_have_an_end() -> None:
    message: dict[str, object] = {"subject": "Deepest", "body": "The end."}
    for level in range(20):
        message = {"subject": f"Level {level}", "body": "More.", "inner": message}
    converted = convert_msg(msg({"subject": "Outermost", "body": "More."}, inner=message), "a.msg")
    assert "Deepest" not in converted.content
    assert "Level 19" in converted.content


@pytest.mark.parametrize("data", [b"", b"x" * 5000, DOC, compound({"__properties_version1.0": b""})])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ConversionError) as refused:
        convert_msg(data, "a.msg")
    assert refused.value.code in ("broken", "no_text")
