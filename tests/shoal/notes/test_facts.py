"""Statements that change what others state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.notes.facts import Change, Statement, find_change


def change(old: str, new: str) -> Change | None:
    return find_change(Statement(old), Statement(new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Ann's dentist is Dr. Okafor.", "Ann's dentist is Dr. Lund.", "attribute"),
        ("The meeting is at nine.", "The meeting was moved to noon.", "attribute"),
        ("I live in Leeds.", "I moved to Bath.", "relation"),
        ("Ann works for the post office.", "Ann joined the railway.", "relation"),
        ("I use Emacs for mail.", "I switched from Emacs to Mutt.", "ended"),
        ("I smoke a pipe.", "I quit smoking.", "ended"),
        ("We have two dogs.", "We have three dogs now.", "amount"),
        ("I swim on Mondays.", "I swim on Fridays now.", "amount"),
        ("I love coffee.", "I hate coffee.", "polarity"),
        ("Indent Go with tabs.", "From now on, indent Go with spaces.", "slot"),
        ("The audit is planned for April.", "The audit has been postponed to May.", "attribute"),
        ("Locker: 117.", "The locker is 204 as of today.", "attribute"),
        ("Priya leads the support team.", "Since June, Tomasz leads the support team.", "relation"),
        ("I train at the Peters gym.", "Peters closed in spring, so I train at home.", "ended"),
    ],
)
def test_change_is_certain(old: str, new: str, reason: str) -> None:
    assert change(old, new) == Change(reason, is_certain=True)


def test_same_words_with_another_value_may_be_a_change() -> None:
    assert change("Deploy the shop with Ansible.", "Deploy the shop with Nomad.") == Change("slot", False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My sister lives in Oslo.", "I moved to Bergen."),
        ("Ann lives in Oslo.", "Tom lives in Bergen."),
        ("I live in Leeds.", "The meeting moved to Monday."),
        ("I love coffee.", "I also love tea."),
        ("I love coffee.", "I love coffee since I was ten."),
        ("My work email is a@example.org.", "My private email is b@example.org."),
        ("My phone number is 12 34.", "My phone is a Pixel 6."),
        ("I visited Rome in May.", "I visited Oslo in June."),
        ("", "I moved to Bath."),
    ],
)
def test_what_changes_nothing(old: str, new: str) -> None:
    assert change(old, new) is None


BOTH_TRUE = """
Ines leads a workshop. | Since May, Tom leads a workshop.
Ada leads the choir. | Ben leads the band now.
The gate code: 4411. | Locker: 9034.
The fair is planned for May. | The wedding is planned for June.
I buy bread at the Peters bakery. | Peters closed at noon, so I walked home.
James left early. | James sings in the choir.
I like tea. | I like coffee.
I love hiking. | I love swimming.
My sister Eva lives in Oslo. | My sister Ida lives in Bergen.
My sister is a nurse. | My sister Ida is a teacher.
I have a sister named Eva. | I have a sister named Ida.
I visited Rome. | I visited Paris.
I went to Rome in May. | I went to Oslo in June.
I have been to Japan. | I have been to Korea.
I speak French. | I speak German.
My son Tom is six. | My son Max is nine.
My brother plays the violin. | My brother plays chess.
Ann is allergic to peanuts. | Ann is allergic to cats.
I am allergic to penicillin. | I am allergic to pollen.
I have a dog. | I have a cat.
I have two dogs. | I have three cats.
I bought a lamp. | I bought a chair.
I work from home on Mondays. | I work from home on Fridays.
I swim on Mondays. | I run on Fridays.
The meeting with Tom is on Monday. | The meeting with Eva is on Friday.
The meeting with Tom is at nine. | The meeting with Eva is at ten.
My favourite film is Alien. | My favourite book is Dune.
Use pnpm in the web folder. | Use npm in the docs folder.
Ann is a vegetarian. | Ann is married.
I read Dune in January. | I read Emma in February.
I play the guitar. | I play the piano.
My mother was born in 1950. | My father was born in 1948.
My friend Tom lives in Rome. | My friend Bo lives in Paris.
I ran 5 km on Monday. | I ran 8 km on Tuesday.
I paid 20 euros for the lamp. | I paid 30 euros for the chair.
I ate pizza yesterday. | I ate pasta today.
My doctor is Dr. Lund. | My dentist is Dr. Okafor.
I met Ann in Leeds. | I met Bob in Leeds.
I hate onions. | I love garlic.
I don't like fish. | I like meat.
I never eat pork. | I eat beef.
The tests run on port 8080. | The docs run on port 9090.
Set the timeout of uploads to 30 seconds. | Set the timeout of searches to 5 seconds.
I watched Alien. | I watched Heat.
My cat is called Mia. | My dog is called Rex.
My cat Mia is black. | My cat Leo is white.
I am learning Spanish. | I am learning the piano.
We have a house in Spain. | We live in a house in Leeds.
I study biology at Leeds. | I teach chess at Leeds.
I live in Leeds. | I was born in Bath.
I work at Siemens. | I worked at Philips before.
I drive a Volvo. | My wife drives a Fiat.
My wife works at Siemens. | I work at Philips.
My aunt lives in Rome. | My uncle lives in Paris.
My kids go to the Park School. | My kids go to the swimming club.
I have a meeting at 9:00 on Monday. | I have a meeting at 11:00 on Tuesday.
I enjoy reading in the evening. | I enjoy cooking in the evening.
The backend uses Python. | The frontend uses TypeScript.
Deploy the shop with Ansible. | Deploy the blog with Ansible.
Ann's phone is a Pixel. | Ann's laptop is a Mac.
I prefer tea in the morning. | I prefer wine in the evening.
I take aspirin for headaches. | I take ibuprofen for back pain.
My password manager is Bitwarden. | My email provider is Fastmail.
I dislike horror films. | I like comedies.
I own a red bike. | I own a blue car.
Bob owns a bakery. | Bob owns a boat.
My daughter starts school in September. | My son starts school in August.
I want to visit Peru. | I want to visit Chile.
I am going to Rome in May. | I am going to Oslo in June.
I quit smoking. | I drink wine.
Tom gave up sugar. | Tom eats honey.
I donated 50 euros. | I donated 70 euros to the zoo.
My team has five members. | My class has twenty members.
The library opens at nine. | The gym opens at seven.
I volunteer at the shelter. | I volunteer at the library.
I used to live in Rome. | I live in Leeds.
I joined the chess club. | I joined the book club.
I started at the gym. | I work at Siemens.
My parents live in Leeds. | My parents live near the sea.
I like my coffee black. | I like my tea with milk.
Ann plays tennis with Bob. | Ann plays tennis with Eva.
I won a prize in 2019. | I won a prize in 2021.
I have an appointment on 3 May. | I have an appointment on 9 June.
I collect stamps. | I collect coins.
My neighbour Karl has a parrot. | My neighbour Inge has a tortoise.
My cousin Lea works at Bosch. | My cousin Ute works at Siemens.
I climbed Ben Nevis. | I climbed Snowdon.
My daughter Mia is allergic to nuts. | My daughter Zoe is allergic to milk.
I grow tomatoes. | I grow beans.
I took the train to Lyon. | I took the bus to Nice.
I am afraid of spiders. | I am afraid of heights.
Our office in Berlin has 40 desks. | Our office in Madrid has 15 desks.
I spent 300 euros in March. | I spent 250 euros in April.
Ann drinks oat milk. | Ann drinks green tea.
My niece plays football. | My nephew plays football.
My brother Paul is a doctor. | My brother Sven is a lawyer.
I don't eat eggs. | I eat cheese.
I never drive at night. | I drive to work.
The kitchen is blue. | The bathroom is green.
I take the bus on Mondays. | I take the tram on Thursdays.
I scored 80 points in maths. | I scored 90 points in art.
I subscribed to Netflix. | I subscribed to Spotify.
My grandmother lives in Turin. | My grandfather lives in Milan.
Ann supports Ajax. | Bob supports Feyenoord.
I lent Tom 20 euros. | I lent Eva 30 euros.
We adopted a kitten. | We adopted a puppy.
My left knee hurts. | My right shoulder hurts.
I joined the choir. | I joined the football team.
I lived in Rome for two years. | I lived in Athens for three years.
I watched a film on Friday. | I watched a play on Sunday.
My laptop has 16 GB of memory. | My desktop has 64 GB of memory.
My friend Ida speaks Danish. | My friend Noa speaks Hebrew.
The signing key lives in the safe. | I live in Bath.
The cat lives in the barn. | I live in Leeds.
The company is based in Berlin. | I live in Bath.
The tests work at night only. | I work at Siemens.
The API server is based in Frankfurt. | I am based in Paris.
The red car is fast. | The blue car is slow.
My brother's car is red. | Our car is blue.
He lives in Rome. | She lives in Oslo.
He lives in Rome. | I live in Oslo.
Peter is my friend. | Anna is my friend.
My email is ann@home. | My work email is ann@work.
My teacher is Mr Brown. | My maths teacher is Mrs Gray.
I think the backup lives in Dublin. | I live in Cork.
The restaurant is vegetarian. | I eat meat.
"""
"""Statements that are both true, in either order."""


@pytest.mark.parametrize("pair", BOTH_TRUE.split("\n")[1:-1])
def test_what_is_true_beside_another_is_not_replaced(pair: str) -> None:
    first, second = pair.split(" | ")
    for old, new in ((first, second), (second, first)):
        found = change(old, new)
        assert found is None or not found.is_certain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I eat meat.", "I never eat meat."),
        ("My sister Eva lives in Oslo.", "My sister Eva moved to Bergen."),
        ("My sister lives in Oslo.", "My sister Eva moved to Bergen."),
        ("I am learning Spanish.", "I am learning Italian now."),
        ("Set the timeout of uploads to 30 seconds.", "Set the timeout of uploads to 60 seconds."),
        ("The meeting with Tom is on Monday.", "The meeting with Tom was moved to Friday."),
        ("Notify me by email.", "Notify me by text message, never by email."),
    ],
)
def test_what_is_said_of_the_same_thing_is_replaced(old: str, new: str) -> None:
    found = change(old, new)
    assert found is not None
    assert found.is_certain


@given(text=st.text(max_size=200), other=st.text(max_size=200))
def test_any_two_texts_are_compared(text: str, other: str) -> None:
    change(text, other)
    assert change(text, text) is None, "a repetition changes nothing"
