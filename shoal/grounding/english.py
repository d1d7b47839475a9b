"""English words by what they do in a sentence: negators, clause openers, opposites, irregular verbs."""

from __future__ import annotations

from collections.abc import Iterator

from lagoon.tokens import stem_many

_NEGATORS = """
    no not never none nor neither nobody nothing nowhere without cannot hardly scarcely barely seldom
    rarely lack lacks lacked lacking unable
"""
NEGATORS = frozenset(_NEGATORS.split())
_DOUBTS_TEXT = """
    allegedly denied denies deny denying disprove disproved doubt doubted doubts false if mistaken myth
    refuted rejected supposedly unless untrue whether wrong wrongly
"""
DOUBTS = frozenset(_DOUBTS_TEXT.split())
"""Words that say of the clause after them that it may not be so."""
_CLAUSE_OPENERS = """
    and but or nor which who whom whose that because although though while when if unless until since so
    than whereas without where
"""
CLAUSE_OPENERS = frozenset(_CLAUSE_OPENERS.split())
CLAUSE_SIGNS = frozenset(",;:()[]–—.!?…、。，；：！？")
SENTENCE_SIGNS = frozenset(".!?…。！？")
_PREPOSITIONS = """
    about above across after against along among amid around as at before behind below beneath beside
    between beyond by despite during for from in inside into near of off on onto opposite outside over
    past per since through throughout till to toward towards under underneath until upon via with within
    without
"""
PREPOSITIONS = frozenset(_PREPOSITIONS.split())
_BE_TEXT = """
    am are be been being get gets got gotten is was were
"""
BE = frozenset(_BE_TEXT.split())
_PERSONS = {
    "he": "he",
    "him": "he",
    "she": "she",
    "they": "they",
    "them": "they",
    "we": "we",
    "us": "we",
    "me": "i",
}
PERSONS = frozenset(_PERSONS)
"""Pronouns that stand for who does something or has it done to them."""
COORDINATORS = frozenset(["and", "or", "&", "nor"])

_OPPOSITES = """
    more less | more fewer | most least | most fewest | before after | above below | over under | higher
    lower | highest lowest | high low | larger smaller | largest smallest | large small | bigger smaller |
    big small | great small | greater smaller | greater lesser | longer shorter | long short | longest
    shortest | taller shorter | older younger | oldest youngest | old young | old new | earlier later |
    early late | earliest latest | first last | faster slower | fast slow | fastest slowest | quickly
    slowly | quick slow | better worse | best worst | good bad | hotter colder | hot cold | warmer cooler
    | warm cool | warmer colder | heavier lighter | heavy light | stronger weaker | strong weak | richer
    poorer | rich poor | wider narrower | wide narrow | deeper shallower | deep shallow | nearer farther |
    near far | closer further | increase decrease | increase reduce | rise fall | rise drop | grow shrink
    | gain lose | win lose | begin end | start stop | start end | open close | open closed | accept reject
    | allow forbid | permit forbid | allow prevent | cause prevent | include exclude | import export | buy
    sell | lend borrow | give take | enter leave | arrive depart | attack defend | create destroy | build
    destroy | love hate | like dislike | support oppose | agree disagree | always never | often seldom |
    often rarely | usually rarely | frequent rare | common rare | everywhere nowhere | all none | all some
    | all few | many few | every some | everyone nobody | some none | both neither | much little | with
    without | inside outside | internal external | inner outer | upper lower | up down | upward downward |
    left right | north south | east west | northern southern | eastern western | positive negative | true
    false | male female | men women | man woman | father mother | son daughter | brother sister | husband
    wife | king queen | day night | morning evening | summer winter | spring autumn | maximum minimum |
    major minor | public private | alive dead | life death | full empty | wet dry | hard soft | light dark
    | black white | easy difficult | simple complex | thick thin | success failure | succeed fail |
    victory defeat | peace war | front back | top bottom | ancient modern | odd even | parent child |
    predator prey | surplus shortage | suitable unsuitable | at-least at-most | must may | general
    specific | enemy friend | question answer | present absent | visible invisible
"""
OPPOSITES: dict[str, frozenset[str]] = {}
"""The opposites of a word."""
for _pair in _OPPOSITES.replace("\n", " ").split("|"):
    _one, _other = _pair.split()
    for _word, _opposite in ((_one, _other), (_other, _one)):
        OPPOSITES[_word] = OPPOSITES.get(_word, frozenset()) | {_opposite}
_OPPOSITE_STEMS = {
    stem: frozenset(stem_many(sorted(opposites)))
    for stem, opposites in zip(stem_many(list(OPPOSITES)), OPPOSITES.values(), strict=True)
}
MIN_PREFIXED = 3
"""Letters of the shortest word that a negative prefix is read on."""
NEGATIVE_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "mis")

_IRREGULAR = """
    arise arose arisen | awake awoke awoken | be was were been is are am | bear bore borne | beat beaten |
    become became | begin began begun | bend bent | bind bound | bite bit bitten | bleed bled | blow blew
    blown | break broke broken | breed bred | bring brought | build built | burn burnt | buy bought |
    catch caught | choose chose chosen | cling clung | come came | creep crept | deal dealt | dig dug | do
    did done does | draw drew drawn | drink drank drunk | drive drove driven | eat ate eaten | fall fell
    fallen | feed fed | feel felt | fight fought | find found | flee fled | fly flew flown | forbid
    forbade forbidden | forget forgot forgotten | forgive forgave forgiven | freeze froze frozen | get got
    gotten | give gave given | go went gone goes | grind ground | grow grew grown | hang hung | have had
    has | hear heard | hide hid hidden | hold held | keep kept | know knew known | lay laid | lead led |
    leave left | lend lent | lie lay lain | lose lost | make made | mean meant | meet met | overcome
    overcame | overthrow overthrew overthrown | pay paid | ride rode ridden | ring rang rung | rise rose
    risen | run ran | say said | see saw seen | seek sought | sell sold | send sent | shake shook shaken |
    shine shone | shoot shot | show shown | shrink shrank shrunk | sing sang sung | sink sank sunk | sit
    sat | sleep slept | slide slid | speak spoke spoken | spend spent | spin spun | spring sprang sprung |
    stand stood | steal stole stolen | stick stuck | sting stung | strike struck stricken | swear swore
    sworn | sweep swept | swim swam swum | swing swung | take took taken | teach taught | tear tore torn |
    tell told | think thought | throw threw thrown | understand understood | wake woke woken | wear wore
    worn | weave wove woven | win won | withdraw withdrew withdrawn | write wrote written
"""
_BASES: dict[str, str] = {}
for _verb in _IRREGULAR.replace("\n", " ").split("|"):
    _base, *_forms = _verb.split()
    _BASES.update((form, _base) for form in _forms if form not in _BASES)
PARTICIPLES = frozenset(_BASES) | frozenset(
    {"beat", "cut", "hit", "hurt", "put", "set", "read", "spread", "become", "run"}
)
for _noun in ("ground", "bound", "wound", "spring"):
    _BASES.pop(_noun, None)


def base_form(form: str) -> str:
    """Return the base form of an irregular verb or a pronoun, and every other form as it is."""
    return _BASES.get(form) or _PERSONS.get(form, form)


def is_participle(form: str) -> bool:
    """Whether a form may be a past participle."""
    return form.endswith("ed") or form in PARTICIPLES


def is_negated_form(form: str) -> bool:
    """Whether a form negates its clause, as "never" and "doesn't"."""
    return form in NEGATORS or form.endswith("n't")


def is_adverb_of_negation(form: str) -> bool:
    """Whether a negator stands before what it negates, as "not" and "didn't", and is no noun as "nothing"."""
    return form in ("not", "never") or form.endswith("n't")


def opposites_of(form: str, stem: str) -> Iterator[str]:
    """Yield forms and stems that mean the opposite: listed ones, "impossible" of "possible", "harmful" of
    "harmless"."""
    yield from sorted(OPPOSITES.get(form, ()))
    yield from sorted(_OPPOSITE_STEMS.get(stem, ()))
    if len(form) > MIN_PREFIXED:
        yield from (prefix + form for prefix in NEGATIVE_PREFIXES)
    for prefix in NEGATIVE_PREFIXES:
        if form.startswith(prefix) and len(form) - len(prefix) > MIN_PREFIXED:
            yield form[len(prefix) :]
    for one, other in (("less", "ful"), ("ful", "less")):
        if form.endswith(one):
            yield form[: -len(one)] + other
