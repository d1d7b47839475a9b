"""The converters of the product by the kinds of their files, as uploads find them."""

from __future__ import annotations

import importlib

from shoal.conversion.converted import Converter
from shoal.conversion.file_kinds import FILE_KINDS


def converter_of(kind_id: str) -> Converter:
    """Return what converts the files of a kind."""
    module, _, function = (FILE_KINDS[kind_id].converter or "").partition(":")
    converter: Converter = getattr(importlib.import_module(module), function)
    return converter


convert_pdf = converter_of("pdf")
convert_docx = converter_of("docx")
convert_pptx = converter_of("pptx")
convert_xlsx = converter_of("xlsx")
convert_workbook = converter_of("xls")
convert_doc = converter_of("doc")
convert_ppt = converter_of("ppt")
convert_csv = converter_of("csv")
convert_opendocument = converter_of("opendocument")
convert_rtf = converter_of("rtf")
convert_html = converter_of("html")
convert_mhtml = converter_of("mhtml")
convert_epub = converter_of("epub")
convert_eml = converter_of("eml")
convert_msg = converter_of("msg")
convert_mbox = converter_of("mbox")
convert_notebook = converter_of("notebook")
convert_rst = converter_of("rst")
convert_source = converter_of("source")
convert_subtitles = converter_of("subtitles")
convert_transcript = converter_of("transcript")
