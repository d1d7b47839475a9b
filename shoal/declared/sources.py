"""What a source is added with besides its name and address, declared once."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, TypedDict

from shoal.declared.arguments import OBJECT, Argument, Choice, Many, Number, Text, Whole, arguments_of
from shoal.declared.documents import DOCUMENT
from shoal.models.sources import WhenGone

_PATTERNS = Many(Text(), most=None)


class SourceLimits(TypedDict, total=False):
    """What can be changed of a source."""

    when_gone: Annotated[
        str | None,
        Argument(
            kind=Choice(WhenGone),
            about="what becomes of a document whose object is gone: `delete` (unless given), `mark` (it gets "
            "the tag `gone`) or `keep`",
        ),
    ]
    max_objects: Annotated[
        int | None,
        Argument(
            kind=Whole(1, 100_000_000), about="a run that lists more objects fails; 1,000,000 unless given"
        ),
    ]
    max_bytes: Annotated[
        int | None,
        Argument(
            kind=Whole(1, 2**60), about="a run that has read so many bytes ends, and the next one goes on"
        ),
    ]
    max_seconds: Annotated[
        int | None,
        Argument(
            kind=Whole(60, 366 * 86_400), about="a run that has lasted so long ends, and the next one goes on"
        ),
    ]
    max_rate: Annotated[
        float | None, Argument(kind=Number(0.01, 10_000), about="objects that are read in a second, at most")
    ]


class SourceFields(SourceLimits, total=False):
    """What a source is added with. A field that is missing or None gets the default."""

    options: Annotated[
        Mapping[str, str] | None,
        Argument(kind=OBJECT, about='how it is reached, such as `{"region": "eu-west-1"}`'),
    ]
    secrets: Annotated[
        Mapping[str, str] | None,
        Argument(
            kind=OBJECT,
            about='where its secrets are, such as `{"key": "env:SOURCE_SECRET_KEY"}`; never the secrets',
        ),
    ]
    include: Annotated[
        Sequence[str] | None, Argument(kind=_PATTERNS, about="only objects that match one of these patterns")
    ]
    exclude: Annotated[
        Sequence[str] | None, Argument(kind=_PATTERNS, about="not objects that match one of these")
    ]
    tags: Annotated[Sequence[str] | None, DOCUMENT["tags"]]
    allow: Annotated[Sequence[str] | None, DOCUMENT["allow"]]
    deny: Annotated[Sequence[str] | None, DOCUMENT["deny"]]


LIMITS: Mapping[str, Argument] = MappingProxyType(arguments_of(SourceLimits))
