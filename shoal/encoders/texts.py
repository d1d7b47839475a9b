"""What is done to texts before any encoder reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.encoders.contract import TextKind
from shoal.settings import Settings


def prefixes(settings: Settings, prompts: Mapping[TextKind, str] | None = None) -> dict[TextKind, str]:
    """Return the text before each kind of text: that of the settings, else the model's own."""
    given = {
        TextKind.query: settings.encoder_query_prefix,
        TextKind.document: settings.encoder_document_prefix,
    }
    return {kind: text or (prompts or {}).get(kind, "") for kind, text in given.items()}


def prepare(texts: Sequence[str], prefix: str, max_chars: int) -> list[str]:
    """Return texts with the prefix, cut to `max_chars`, that can be encoded as UTF-8."""
    return [(prefix + text[:max_chars])[:max_chars].encode("utf-8", "replace").decode() for text in texts]
