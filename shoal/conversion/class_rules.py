"""What the classes and ids of web pages say of their elements."""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.support.plain_text import words_of

# Such as `has-sidebar` and `post--with-ads`, which say what is in an element and not what it is.
_MODIFIER = re.compile(r"(?:\b|_)(?:has|with|without|no|not|hide|show)[-_]\S*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
COMMENTS = "comments"


class ClassRule(NamedTuple):
    """What words of classes and ids say about an element.

    `most`: the greatest share of the page's text that is removed for it; `links`: the least share of the
    element's text that must be links.
    """

    reason: str
    most: float
    links: float
    words: frozenset[str]


_CLASS_RULES = (
    ClassRule("cookie banner", 0.3, 0.0, words_of("cookie cookies consent gdpr ccpa onetrust")),
    ClassRule(
        "navigation",
        0.5,
        0.0,
        words_of(
            "nav navbar navigation breadcrumb breadcrumbs pagination pager sidenav topnav subnav navbox "
            "catlinks sphinxsidebar localtoc skip skiplink"
        ),
    ),
    ClassRule("navigation", 0.5, 0.5, words_of("menu toc tabs toolbar")),
    ClassRule("sidebar", 0.3, 0.2, words_of("sidebar rail")),
    ClassRule("footer", 0.3, 0.0, words_of("footer printfooter colophon siteinfo")),
    ClassRule(
        COMMENTS,
        1.0,
        0.0,
        words_of(
            "comment comments commentform commentlist nocomments respond reply replies remarks shoutbox "
            "guestbook disqus akismet kommentar kommentare comentarios commentaires komentarze"
        ),
    ),
    ClassRule(
        "related pages",
        0.3,
        0.0,
        words_of(
            "related relatedposts relates recommended recommendations suggested suggestions trending viral "
            "popular mostread mostpopular recirculation outbrain taboola verwandte empfehlungen relacionadas"
        ),
    ),
    ClassRule(
        "related pages",
        0.3,
        0.3,
        words_of("teaser teasers more moreposts posts stories next prev previous articles links"),
    ),
    ClassRule("about the author", 0.2, 0.0, words_of("author authors authorbox bio byline")),
    ClassRule(
        "sharing",
        0.1,
        0.0,
        words_of("share sharing social addtoany sharedaddy shariff print email rating ratings"),
    ),
    ClassRule(
        "about the page",
        0.1,
        0.0,
        words_of(
            "meta metadata postmetadata tags tagcloud taxonomy categories copyright credit credits date "
            "updated disclosure license licence"
        ),
    ),
    ClassRule("pop-up", 0.1, 0.0, words_of("newsletter subscribe signup popup modal paywall privacy cta")),
    ClassRule(
        "advertisement",
        0.1,
        0.0,
        words_of(
            "ad ads advert advertisement adsbygoogle adslot adbox skyscraper sponsor sponsored affiliate "
            "promo promotion donate donation werbung anzeige anzeigen publicidad reklama"
        ),
    ),
    ClassRule("control", 0.1, 0.0, words_of("button buttons btn download")),
    ClassRule("mark", 0.05, 0.0, words_of("editsection headerlink noprint anchorjs permalink linenos")),
)
RULE_OF_WORD = {word: rule for rule in _CLASS_RULES for word in rule.words}
"""The rule of each word that one names."""


def class_words(attributes: dict[str, str]) -> list[str]:
    """Return the words of the class and the id of an element, in lower case, without modifiers."""
    names = f"{attributes.get('class', '')} {attributes.get('id', '')}"[:500]
    return [word.lower() for word in _WORD.findall(_MODIFIER.sub(" ", names))]
