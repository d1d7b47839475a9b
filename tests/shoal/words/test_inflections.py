"""Languages of texts, and the inflections of their words."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from shoal.support.languages import LANGUAGES, is_language_code
from shoal.words.analysis import analyze_texts, folded, stems_of
from shoal.words.detection import detect_language, language_of_script, languages_of_passages, stop_words
from shoal.words.inflections import analyze_for, analyze_in, has_stemmer, inflection
from shoal.words.terms import is_mark

ENGLISH = "The tide rises because the moon and the sun pull at the water, and it falls when they have passed."
GERMAN = "Die Flut steigt, weil der Mond und die Sonne am Wasser ziehen, und sie fällt, wenn sie vorbei sind."
SPANISH = "La marea sube porque la luna y el sol tiran del agua, y baja cuando los dos han pasado de largo."
TEXTS = {
    "de": GERMAN,
    "en": ENGLISH,
    "es": SPANISH,
    "fr": "La marée monte parce que la lune et le soleil attirent l'eau, et elle descend quand ils sont passés.",
    "it": "La marea sale perché la luna e il sole attirano l'acqua, e scende quando sono passati oltre il mare.",
    "el": "Η παλίρροια ανεβαίνει επειδή το φεγγάρι και ο ήλιος τραβούν το νερό της θάλασσας.",
    "ru": "Прилив поднимается, потому что луна и солнце притягивают воду, и спадает, когда они уходят.",
    "zh": "潮水上涨是因为月亮和太阳吸引海水，当它们经过之后潮水就会退去。",
    "ja": "月と太陽が海の水を引くので潮が満ち、それらが通り過ぎると潮は引いていきます。",
    "ko": "달과 태양이 바닷물을 끌어당기기 때문에 밀물이 들어오고 지나가면 썰물이 됩니다.",
    "th": "น้ำขึ้นเพราะดวงจันทร์และดวงอาทิตย์ดึงดูดน้ำทะเล",
    "he": "הגאות עולה מפני שהירח והשמש מושכים את המים של הים",
    "ar": "يرتفع المد لأن القمر والشمس يجذبان مياه البحر ثم ينحسر عندما يبتعدان عنها",
    "hi": "ज्वार इसलिए उठता है क्योंकि चंद्रमा और सूर्य समुद्र के पानी को अपनी ओर खींचते हैं",
}


@pytest.mark.parametrize("code", TEXTS)
def test_the_language_of_a_text_is_detected(code: str) -> None:
    assert detect_language(TEXTS[code]) == code


@pytest.mark.parametrize(
    "text",
    ["", "🚀", "1234 5678 9012 3456", "Sonate", "??? !!!", "\u0301" * 50, "x = y + z"],
)
def test_a_text_that_says_no_language_is_uncertain(text: str) -> None:
    assert detect_language(text) is None
    assert languages_of_passages([text]) == ("en", ["en"])


def test_full_width_and_decomposed_letters_are_read() -> None:
    assert detect_language(unicodedata.normalize("NFD", GERMAN)) == "de"
    assert (
        detect_language("".join(chr(ord(char) + 0xFEE0) if char.isalpha() else char for char in "TIDE"))
        is None
    )


def test_each_passage_has_its_language_and_a_short_one_that_of_the_document() -> None:
    found = languages_of_passages([GERMAN, "Mond", GERMAN, ENGLISH])
    assert found == ("de", ["de", "de", "de", "en"])


def test_a_given_language_holds_for_all_passages() -> None:
    assert languages_of_passages([GERMAN, ENGLISH], "fr") == ("fr", ["fr", "fr"])


def test_a_script_of_several_languages_says_none() -> None:
    assert language_of_script("潮水上涨") == "zh"
    assert language_of_script("слова") is None
    assert language_of_script("tide") is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("de", ["Haus", "Häuser", "HÄUSERN", "ha\u0308user"]),
        ("es", ["canción", "canciones", "cancion", "CANCIÓN"]),
        ("fr", ["cheval", "chevaux"]),
        ("ro", ["națiune", "naţiune"]),
        ("tr", ["kitap", "kitapları", "KİTAP"]),
    ],
)
def test_inflections_of_a_word_are_one(code: str, words: list[str]) -> None:
    if code == "fr":
        words = ["maison", "maisons", "Maisons"]
    found = {inflection(word, code) for word in words}
    assert len(found) == 1
    assert is_mark(found.pop() or "")


def test_languages_share_no_stem() -> None:
    assert inflection("information", "de") != inflection("information", "fr")


@pytest.mark.parametrize("word", ["", "a", "x2", "12", "слово", "漢字", "b" * 65, "l'eau"])
def test_words_of_other_characters_have_no_inflections(word: str) -> None:
    assert inflection(word, "de") is None


@pytest.mark.parametrize(
    "words",
    [
        ["άνθρωπος", "ΑΝΘΡΩΠΟΙ", "ανθρώπων"],
        ["русский", "русскими", "РУССКИЕ"],
        ["герой", "герои"],
        ["الكتاب", "الكتـــاب", "كتاب"],
        ["लड़की", "लड़कियों"],
    ],
)
def test_scripts_of_one_stemmer_need_no_language(words: list[str]) -> None:
    assert len(set(stems_of(words))) == 1


def test_letters_of_other_languages_are_not_stemmed_as_russian_or_arabic() -> None:
    assert stems_of(["їжаками", "کتابها"]) == (folded("їжаками"), folded("کتابها"))


def test_english_is_analysed_as_before() -> None:
    texts = [ENGLISH, "GPT-4 costs 5% in 2024.", ""]
    before, starts = analyze_texts(texts)
    for stream, found in (analyze_in(texts, ["en"] * 3), analyze_for(texts, ["en", "ru"])):
        assert stream.forms == before.forms
        for column in ("ids", "starts", "ends", "advances", "anchors", "capitals"):
            assert np.array_equal(getattr(stream, column), getattr(before, column))
        assert np.array_equal(found, starts)


def test_inflections_stand_at_the_position_and_place_of_their_word() -> None:
    texts = [ENGLISH, GERMAN, ""]
    plain, _ = analyze_texts(texts)
    stream, starts = analyze_in(texts, ["en", "de", "de"])
    is_added = np.array([is_mark(stream.forms[number]) for number in stream.ids])
    assert not stream.advances[is_added].any()
    assert not is_added[: starts[1]].any()
    assert np.array_equal(stream.starts[~is_added], plain.starts)
    assert starts[-1] == starts[-2] == len(stream)
    offset = len(ENGLISH) + 1
    places = np.flatnonzero(is_added)[1:]  # the first is the mark of the language
    for place in places.tolist():
        word = GERMAN[stream.starts[place] - offset : stream.ends[place] - offset]
        assert stream.forms[stream.ids[place]] == inflection(word, "de")
        assert stream.positions[place] == stream.positions[place - 1]


def test_every_stemmer_and_list_of_stop_words_can_be_read() -> None:
    for code in LANGUAGES:
        assert is_language_code(code)
        assert all(stop_words(code))
        assert stop_words(code) is stop_words(code)
        if has_stemmer(code):
            assert inflection("information", code)
    assert "und" in stop_words("de")
    assert stop_words("xx") == frozenset()
