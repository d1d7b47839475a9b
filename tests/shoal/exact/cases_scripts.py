"""Kind 5: scripts without spaces between words, and changes of script."""

from __future__ import annotations

from case import ABSENT, ALL, ELSEWHERE, HAVING, LEXICAL, Case, library

CHINESE = library(
    ("部署", "我们使用Docker部署应用程序。北京大学的学生在图书馆学习。"),
    ("天气", "上海今天下雨,带上雨伞。"),
    ("机场", "飞机从广州起飞,三小时后降落。"),
)
PHONES = library(
    ("电池", "iPhone15的电池可以用一整天。"),
    ("屏幕", "这台电脑的屏幕很大。"),
    ("相机", "相机在夜里也能拍照。"),
)
JAPANESE = library(
    ("旅行", "新幹線で京都へ行き、お寺を見ました。"),
    ("料理", "カレーライスは子供に人気があります。"),
    ("天気予報", "明日は雪が降るでしょう。"),
    ("音楽", "妹はピアノを毎日練習します。"),
)
THAI = library(
    ("ร้านกาแฟ", "ร้านนี้ขายกาแฟและขนมปังทุกเช้า"),
    ("ทะเล", "เรือออกจากท่าไปยังเกาะ"),
    ("โรงเรียน", "นักเรียนอ่านหนังสือในห้องสมุด"),
)
KHMER = library(
    ("ទីក្រុង", "ភ្នំពេញជារាជធានី"),
    ("ទន្លេ", "ទន្លេមេគង្គហូរទៅសមុទ្រ"),
)
MIXED = library(
    ("会议", "下周二在B12室开会,请带笔记本。"),
    ("午餐", "食堂十二点开门。"),
    ("版本", "新版本3.1.2修复了登录错误。"),
    ("Meeting", "We meet on Tuesday; bring a notebook."),
)
KOREAN = library(
    ("도서관", "도서관은 아침 아홉 시에 문을 엽니다"),
    ("시장", "시장에서 생선과 과일을 팝니다"),
)
ACCENTS = library(
    ("Café", "Le café ouvre à huit heures près de la gare."),
    ("Ελλάδα", "Το πλοίο φεύγει από τον Πειραιά το πρωί."),
    ("עברית", "הספר נמצא על השולחן"),
    ("قطار", "القطار يصل إلى المحطة في المساء"),
)

CASES = [
    Case(
        "Beijing in Chinese",
        CHINESE,
        "北京",
        ("部署",),
        highlights=("北京",),
        absent=("天气", "机场"),
        unsaid="no passage",
    ),
    Case(
        "students in Chinese",
        CHINESE,
        "学生",
        ("部署",),
        highlights=("学生",),
        absent=("天气", "机场"),
        unsaid="no passage",
    ),
    Case(
        "Docker inside Chinese text",
        CHINESE,
        "Docker",
        ("部署",),
        highlights=("Docker",),
        absent=("天气", "机场"),
        unsaid="no passage",
    ),
    Case("Docker and a Chinese word", CHINESE, "Docker部署", ("部署",), unsaid="no passage"),
    Case(
        "Peking University", CHINESE, "北京大学", ("部署",), highlights=("北京大学",), absent=("天气", "机场")
    ),
    Case("Shanghai in Chinese", CHINESE, "上海", ("天气",), highlights=("上海",), absent=("部署", "机场")),
    Case("airplane in Chinese", CHINESE, "飞机", ("机场",), highlights=("飞机",), absent=("部署", "天气")),
    Case("one Chinese letter", CHINESE, "雨", ("天气",), absent=("部署", "机场")),
    Case("Chinese question", CHINESE, "上海今天下雨吗?", ("天气",)),
    Case("two Chinese words with a space", CHINESE, "广州 飞机", ("机场",), highlights=("飞机", "广州")),
    Case("Chinese city that is nowhere", CHINESE, "南京", warning="南京", at_most=ELSEWHERE),
    Case(
        "Chinese phrase", CHINESE, '"北京大学"', ("部署",), absent=("天气", "机场"), highlights=("北京大学",)
    ),
    Case("Chinese phrase in another order", CHINESE, '"大学北京"', absent=ALL),
    Case(
        "Chinese exclusion",
        CHINESE,
        "北京 上海 -雨伞",
        ("部署",),
        absent=("天气",),
        excluded=("雨伞",),
    ),
    Case("Chinese by words alone", CHINESE, "图书馆", ("部署",), LEXICAL, highlights=("图书馆",)),
    Case(
        "model inside Chinese text",
        PHONES,
        "iPhone15",
        ("电池",),
        highlights=("iPhone15",),
        absent=("屏幕", "相机"),
    ),
    Case("model with a space", PHONES, "iPhone 15 电池", ("电池",)),
    Case(
        "another model inside Chinese text",
        PHONES,
        "iPhone16 电池",
        ("电池",),
        at_most=ABSENT,
        warning="iPhone16",
    ),
    Case("screen in Chinese", PHONES, "屏幕", ("屏幕",), absent=("电池", "相机")),
    Case(
        "Kyoto in Japanese",
        JAPANESE,
        "京都",
        ("旅行",),
        highlights=("京都",),
        absent=("料理", "音楽"),
        unsaid="no passage",
    ),
    Case("train in Japanese", JAPANESE, "新幹線", ("旅行",), highlights=("新幹線",)),
    Case("katakana", JAPANESE, "ピアノ", ("音楽",), highlights=("ピアノ",), absent=("旅行", "料理")),
    Case("katakana in a part", JAPANESE, "カレー", ("料理",), highlights=("カレー",)),
    Case("snow in Japanese", JAPANESE, "雪", ("天気予報",), absent=("旅行", "音楽")),
    Case("Japanese title", JAPANESE, "天気予報", ("天気予報",)),
    Case(
        "Japanese corner brackets", JAPANESE, "「京都へ行き」", ("旅行",), absent=("料理", "天気予報", "音楽")
    ),
    Case("Japanese city that is nowhere", JAPANESE, "大阪", absent=("料理", "音楽"), warning="大阪"),
    Case("coffee in Thai", THAI, "กาแฟ", ("ร้านกาแฟ",), unsaid="no passage"),
    Case("coffee is highlighted in Thai", THAI, "กาแฟ", highlights=("กาแฟ",)),
    Case("island in Thai", THAI, "เกาะ", ("ทะเล",), unsaid="no passage"),
    Case("library in Thai", THAI, "ห้องสมุด", ("โรงเรียน",)),
    Case("bread in Thai phrase", THAI, '"ขนมปัง"', ("ร้านกาแฟ",), absent=("ทะเล", "โรงเรียน")),
    Case("city in Khmer", KHMER, "ភ្នំពេញ", ("ទីក្រុង",), unsaid="no passage"),
    Case("river in Khmer", KHMER, "មេគង្គ", ("ទន្លេ",), unsaid="no passage"),
    Case("room number inside Chinese text", MIXED, "B12室", ("会议",)),
    Case("room number alone", MIXED, "B12", ("会议",), at_least=HAVING, highlights=("B12",)),
    Case("version inside Chinese text", MIXED, "3.1.2", ("版本",), at_least=HAVING, highlights=("3.1.2",)),
    Case(
        "other version inside Chinese text",
        MIXED,
        "版本3.1.3",
        at_most=ABSENT,
        warning="does not have 3.1.3, but 3.1.2",
    ),
    Case("canteen in Chinese", MIXED, "食堂", ("午餐",), absent=("会议", "版本", "Meeting")),
    Case("English beside Chinese", MIXED, "notebook", ("Meeting",), absent=("午餐",)),
    Case("Korean word", KOREAN, "도서관은", ("도서관",), absent=("시장",)),
    Case("Korean title", KOREAN, "시장", ("시장",)),
    Case("accent left out", ACCENTS, "cafe", ("Café",), absent=("עברית", "قطار")),
    Case("Greek word", ACCENTS, "πλοίο", ("Ελλάδα",), highlights=("πλοίο",)),
    Case("Greek word without accent", ACCENTS, "πλοιο", ("Ελλάδα",), highlights=("πλοίο",)),
    Case("Hebrew word", ACCENTS, "השולחן", ("עברית",), highlights=("השולחן",)),
    Case("Arabic word", ACCENTS, "القطار", ("قطار",), highlights=("القطار",)),
]
