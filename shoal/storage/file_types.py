"""The types of documents, as conditions on a row `d` of `documents`.

A type is the kind of the file that a document was converted from (`pdf`), `markdown` or `text` for one that
was sent as text, what the passages are (`audio`, `video`, `image`), or the end of its source path (`.py`).
"""

from __future__ import annotations

from shoal.models.documents import DocFormat
from shoal.models.recordings import Modality
from shoal.storage.document_queries import literal
from shoal.storage.timed_media import AUDIO_SUFFIXES

AUDIO, VIDEO, IMAGE = "audio", "video", "image"
MEDIA = (AUDIO, VIDEO, IMAGE)
"""Types that say what the passages of a document are, whatever its file is."""

TEXT_TYPES = {"markdown": DocFormat.markdown, "text": DocFormat.plaintext}

_HAS_FILE = "EXISTS (SELECT 1 FROM document_files f WHERE f.document_id = d.id{})"
_IS_RECORDING = _HAS_FILE.format(" AND f.kind IN ('subtitles', 'transcript')")
# As `timed_media.modality_of` decides for a passage with times.
_MODALITY = "json_extract(d.metadata, '$.modality')"
_KNOWN = ", ".join(f"'{modality}'" for modality in Modality)
_OF_AUDIO = " OR ".join(f"d.source_path LIKE '%{suffix}.%'" for suffix in sorted(AUDIO_SUFFIXES))
_UNDECLARED = f"({_MODALITY} IS NULL OR {_MODALITY} NOT IN ({_KNOWN}))"
_MEDIA = {
    AUDIO: f"({_MODALITY} = 'audio_transcript' OR {_UNDECLARED} AND {_IS_RECORDING} AND ({_OF_AUDIO}))",
    VIDEO: f"({_MODALITY} IN ('video_transcript', 'video_frame') OR {_UNDECLARED} AND {_IS_RECORDING} "
    f"AND NOT COALESCE({_OF_AUDIO}, FALSE))",
    IMAGE: f"{_MODALITY} IN ('image_caption', 'ocr')",
}


def is_of_type(file_type: str, name: str) -> tuple[str, dict[str, str]]:
    """Return the condition that a document is of a type, and its parameter, whose name is `name`."""
    if file_type in MEDIA:
        return _MEDIA[file_type], {}
    if file_type in TEXT_TYPES:
        is_text = f"(d.format = :{name} AND NOT {_HAS_FILE.format('')})"
        return is_text, {name: TEXT_TYPES[file_type].value}
    if file_type.startswith("."):
        return f"d.source_path LIKE :{name} ESCAPE '!'", {name: f"%{literal(file_type)}"}
    return _HAS_FILE.format(f" AND f.kind = :{name}"), {name: file_type}
