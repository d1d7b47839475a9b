"""Files of Office before 2007 and binary workbooks: tables by calamine, texts and slides by LibreOffice."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import resource
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.conversion.converted import (
    ROWS_BETWEEN_REPORTS,
    ConversionError,
    Converted,
    Draft,
    Metadata,
    broken,
    report,
)
from shoal.conversion.docx import convert_docx
from shoal.conversion.metadata import described
from shoal.conversion.package import encrypted
from shoal.conversion.pptx import convert_pptx
from shoal.conversion.recognition import suffix_of
from shoal.conversion.spreadsheets import MAX_CELLS, NumberedRow, SheetWriter, cell_text, number_text
from shoal.conversion.texts import known_encoding

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

OFFICE_SECONDS = 600
"""Most processor time of LibreOffice for a file: it ends even if the process that started it is gone."""

_FILEPASS = 0x2F
_RECORDS_BEFORE_ENCRYPTION = 20
_SECURITY = "".join(
    '<item oor:path="/org.openoffice.Office.Common/Security/Scripting">'
    f'<prop oor:name="{name}" oor:op="fuse"><value>true</value></prop></item>'
    for name in ("DisableMacrosExecution", "BlockUntrustedRefererLinks")
)
_PROFILE = f'<oor:items xmlns:oor="http://openoffice.org/2001/registry">{_SECURITY}</oor:items>'


def convert_workbook(data: bytes, name: str) -> Converted:
    """Convert an XLS or XLSB file. Formulas give their last values; only dates have the format of cells."""
    from python_calamine import (
        CalamineError,
        CalamineWorkbook,
        PasswordError,
        SheetTypeEnum,
        SheetVisibleEnum,
    )

    draft = Draft()
    writer = SheetWriter(draft)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        for index, sheet in enumerate(workbook.sheets_metadata):
            if sheet.typ in (SheetTypeEnum.Vba, SheetTypeEnum.MacroSheet):
                continue
            if sheet.visible != SheetVisibleEnum.Visible:
                draft.warn(f"the sheet {sheet.name} is hidden in the file; its cells are in the text")
            if writer.cells_left <= 0:
                draft.warn(f"the sheet {sheet.name} is left out: only {MAX_CELLS:,} cells of a file are read")
                continue
            try:
                writer.write(sheet.name, _rows(workbook.get_sheet_by_index(index)))
            except CalamineError as error:
                draft.warn(f"the sheet {sheet.name} cannot be read ({error})")
    except BaseException as error:
        # An error of the library itself is no Exception.
        is_panic = type(error).__name__ == "PanicException"
        if not (is_panic or isinstance(error, CalamineError)):
            raise
        if isinstance(error, PasswordError) or _is_encrypted(data):
            raise encrypted() from None
        if is_panic:
            raise ConversionError(
                "crashed", "python-calamine cannot read this workbook", "save it as .xlsx"
            ) from None
        raise broken(f"it cannot be read as a workbook of Excel 5 or newer ({error})") from error
    title, metadata = _properties(data)
    return draft.converted(title, metadata=metadata)


def _is_encrypted(data: bytes) -> bool:
    """Whether an XLS file says among its first records that the others are encrypted."""
    import olefile

    with contextlib.suppress(Exception), olefile.OleFileIO(io.BytesIO(data)) as ole:
        stream = ole.openstream("Workbook" if ole.exists("Workbook") else "Book")
        for _ in range(_RECORDS_BEFORE_ENCRYPTION):
            kind, length = struct.unpack("<HH", stream.read(4))
            if kind == _FILEPASS:
                return True
            stream.seek(length, io.SEEK_CUR)
    return False


def _properties(data: bytes) -> tuple[str, Metadata]:
    """Return the title and the metadata of a compound file; those of other files are empty."""
    import olefile

    with contextlib.suppress(Exception), olefile.OleFileIO(io.BytesIO(data)) as ole:
        found = ole.get_metadata()
        texts = {
            name: (getattr(found, name) or b"").decode(
                known_encoding(f"cp{found.codepage}") or "cp1252", "replace"
            )
            for name in ("title", "author", "subject", "keywords", "company")
        }
        return texts["title"], described(
            author=texts["author"].split(";"),
            subject=texts["subject"],
            keywords=texts["keywords"],
            publisher=texts["company"],
            created=found.create_time and found.create_time.isoformat(),
            modified=found.last_saved_time and found.last_saved_time.isoformat(),
        )
    return "", {}


def _rows(sheet: CalamineSheet) -> Iterator[NumberedRow]:
    first_row, first_column = sheet.start or (0, 0)
    spans: dict[int, dict[int, int]] = {}
    for (top, left), (_, right) in sheet.merged_cell_ranges or ():
        spans.setdefault(top, {})[left] = right - left + 1
    for number, cells in enumerate(sheet.iter_rows(), first_row):
        if number % ROWS_BETWEEN_REPORTS == 0:
            report(number - first_row, sheet.height)
        texts = {column: _text(cell) for column, cell in enumerate(cells, first_column) if cell != ""}
        yield NumberedRow(number + 1, texts, spans.get(number, {}))


def _text(cell: float | str | bool | dt.time | dt.date | dt.timedelta) -> str:
    match cell:
        case bool():
            return str(cell).upper()
        case int() | float():
            return number_text(cell)
        case dt.datetime():
            if cell.time() == dt.time():
                return cell.date().isoformat()
            return cell.isoformat(" ").removesuffix(":00")
        case dt.date() | dt.time():
            return cell.isoformat()
        case _:
            return cell_text(str(cell))


def convert_doc(data: bytes, name: str, *, office: str = "") -> Converted:
    """Convert a DOC file; see `_by_office`."""
    return convert_docx(_by_office(data, name, ".doc", "docx", office), name)


def convert_ppt(data: bytes, name: str, *, office: str = "") -> Converted:
    """Convert a PPT file; see `_by_office`."""
    return convert_pptx(_by_office(data, name, ".ppt", "pptx", office), name)


def _by_office(data: bytes, name: str, suffix: str, new: str, office: str) -> bytes:
    """Return a file in its newer format, written by LibreOffice.

    `office`: its program; without one, ConversionError says what to do. It runs with a profile of its own,
    without macros, and within the limits of this process.
    """
    given = suffix_of(name) or suffix
    if not office:
        raise ConversionError(
            "missing_extra", f"this is a {given} file", f"set SHOAL_OFFICE or save it as .{new}"
        )
    program = shutil.which(office)
    if program is None:
        raise ConversionError(
            "missing_extra",
            f"this is a {given} file, and the program of SHOAL_OFFICE, {office}, is not installed",
            f"install it or save the file as .{new}",
        )
    with tempfile.TemporaryDirectory(prefix="shoal-office-") as folder:
        source = Path(folder) / f"file{suffix}"
        source.write_bytes(data)
        profile = Path(folder) / "profile"
        (profile / "user").mkdir(parents=True)
        (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE, encoding="utf-8")
        command = [program, f"-env:UserInstallation={profile.as_uri()}", "--headless", "--norestore"]
        command += ["--convert-to", new, "--outdir", folder, str(source)]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"HOME": folder, "TMPDIR": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            preexec_fn=_limit_time,
            check=False,
        )
        try:
            return source.with_suffix(f".{new}").read_bytes()
        except OSError:
            raise broken(f"{office} cannot read it") from None


def _limit_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (OFFICE_SECONDS, OFFICE_SECONDS))
