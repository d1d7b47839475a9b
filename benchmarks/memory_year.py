"""What a person tells an assistant in a year: facts that change, others that stay, and some to forget.

A fact has a question, and what was said about it in order: the day, the words, and the day from which it
holds. The words were written before the code that reads them, and are not changed for it.
"""

from __future__ import annotations

from typing import NamedTuple


class Said(NamedTuple):
    """A statement: the day it was made, its words, and the day from which it holds (None: not checked)."""

    on: str
    text: str
    holds_from: str | None = None


class Fact(NamedTuple):
    """A fact that changes: the question, and what was said, oldest first; the last statement is valid."""

    question: str
    said: tuple[Said, ...]


class Year(NamedTuple):
    """A year: facts that change, statements that stay, and statements to forget with the question for each
    and the words by which it would be learned again."""

    changing: tuple[Fact, ...]
    staying: tuple[Said, ...]
    forgotten: tuple[tuple[str, str, str], ...]


def _fact(question: str, *said: tuple[str, str, str | None]) -> Fact:
    return Fact(question, tuple(Said(*each) for each in said))


FIRST = Year(
    changing=(
        _fact(
            "Where does the user live?",
            ("2025-01-04", "The user lives in Utrecht.", "2025-01-04"),
            ("2025-03-12", "The user moved to Ghent last Saturday.", "2025-03-08"),
        ),
        _fact(
            "Which company employs me?",
            ("2025-01-05", "I work for Philips as an engineer.", "2025-01-05"),
            ("2025-04-10", "I started at Siemens on 1 April.", "2025-04-01"),
        ),
        _fact(
            "What is my phone number?",
            ("2025-01-05", "My phone number is +31 6 1234 5678.", "2025-01-05"),
            ("2025-03-20", "My new phone number is +32 470 55 66 77.", "2025-03-20"),
        ),
        _fact(
            "What is the wifi password at home?",
            ("2025-01-06", "The wifi password at home is bluewhale42.", "2025-01-06"),
            ("2025-03-21", "I changed the wifi password at home to greenheron7 yesterday.", "2025-03-20"),
        ),
        _fact(
            "Which tea do I like best?",
            ("2025-01-07", "My favourite tea is Assam.", "2025-01-07"),
            ("2025-09-02", "I have gone off Assam; my favourite tea is now genmaicha.", "2025-09-02"),
        ),
        _fact(
            "Which editor do I use?",
            ("2025-01-08", "I use Vim for all my code.", "2025-01-08"),
            ("2025-05-19", "Switched from Vim to Helix two weeks ago.", "2025-05-05"),
        ),
        _fact(
            "How should my Python code be indented, tabs or spaces?",
            ("2025-01-08", "I indent Python with tabs.", "2025-01-08"),
            ("2025-02-11", "From now on, indent my Python with spaces.", "2025-02-11"),
        ),
        _fact(
            "How do I feel about coffee?",
            ("2025-01-09", "I love coffee.", "2025-01-09"),
            ("2025-11-17", "I hate coffee since I had the flu in October.", "2025-10-01"),
        ),
        _fact(
            "Who is my dentist?",
            ("2025-01-10", "My dentist is Dr. Okafor.", "2025-01-10"),
            ("2025-04-22", "Dr. Lindqvist is my dentist now.", "2025-04-22"),
        ),
        _fact(
            "What car do I drive?",
            ("2025-01-11", "I drive a Renault Clio.", "2025-01-11"),
            ("2025-06-14", "Yesterday I sold the Clio and bought a Skoda Enyaq.", "2025-06-13"),
        ),
        _fact(
            "How much do I weigh?",
            ("2025-01-12", "I weigh 82 kg.", "2025-01-12"),
            ("2025-08-30", "My weight is down to 76 kg.", "2025-08-30"),
        ),
        _fact(
            "How high is our rent?",
            ("2025-03-15", "Our rent is 1,150 euros a month.", "2025-03-15"),
            ("2025-06-20", "The rent goes up to 1,240 euros from 1 July.", "2025-07-01"),
        ),
        _fact(
            "Am I in a relationship?",
            ("2025-01-13", "I am single.", "2025-01-13"),
            ("2025-10-08", "I got engaged to Sam on Sunday.", "2025-10-05"),
        ),
        _fact(
            "Do I eat meat?",
            ("2025-01-14", "I eat meat most days.", "2025-01-14"),
            ("2025-07-09", "I have been a vegetarian since June.", "2025-06-01"),
        ),
        _fact(
            "On which day do I go to the gym?",
            ("2025-01-14", "I go to the gym on Tuesdays.", "2025-01-14"),
            ("2025-04-03", "Gym day is Thursday now.", "2025-04-03"),
        ),
        _fact(
            "When is our daily stand-up?",
            ("2025-01-15", "Our stand-up is at 9:30.", "2025-01-15"),
            ("2025-05-06", "The stand-up moved to 10:15 yesterday.", "2025-05-05"),
        ),
        _fact(
            "Who is my manager?",
            ("2025-04-11", "My manager is Priya.", "2025-04-11"),
            ("2025-09-24", "Priya left the company; Tomasz is my manager since Monday.", "2025-09-22"),
        ),
        _fact(
            "What is my job title?",
            ("2025-04-12", "I work as a data analyst.", "2025-04-12"),
            ("2025-11-06", "I was promoted to lead analyst on 3 November.", "2025-11-03"),
        ),
        _fact(
            "Which bank am I with?",
            ("2025-01-16", "I bank with ING.", "2025-01-16"),
            ("2025-03-28", "I closed my account at ING and moved to Argenta this week.", "2025-03-24"),
        ),
        _fact(
            "Which phone do I have?",
            ("2025-01-17", "My phone is a Pixel 6.", "2025-01-17"),
            ("2025-08-15", "Two days ago I replaced my Pixel 6 with a Fairphone 5.", "2025-08-13"),
        ),
        _fact(
            "What is my email address?",
            ("2025-01-17", "My email address is eva@example.org.", "2025-01-17"),
            (
                "2025-05-27",
                "Please write to eva.maes@example.net, which is my new email address.",
                "2025-05-27",
            ),
        ),
        _fact(
            "Where does my sister live?",
            ("2025-01-18", "My sister lives in Oslo.", "2025-01-18"),
            ("2025-09-15", "My sister has moved to Bergen.", "2025-09-15"),
        ),
        _fact(
            "Which school does Leo go to?",
            ("2025-01-19", "Leo goes to the Park School.", "2025-01-19"),
            ("2025-09-03", "Leo changed schools on Monday: he attends Lakeside now.", "2025-09-01"),
        ),
        _fact(
            "Do I still run in the morning?",
            ("2025-01-20", "I run 5 km every morning.", "2025-01-20"),
            ("2025-12-02", "I no longer run in the morning.", "2025-12-02"),
        ),
        _fact(
            "Do I smoke?",
            ("2025-01-21", "I smoke ten cigarettes a day.", "2025-01-21"),
            ("2025-02-20", "I quit smoking last Friday.", "2025-02-14"),
        ),
        _fact(
            "How many cats do we have?",
            ("2025-01-22", "We have two cats.", "2025-01-22"),
            ("2025-06-03", "We have had three cats since May.", "2025-05-01"),
        ),
        _fact(
            "Which language am I learning?",
            ("2025-01-23", "I am learning Italian.", "2025-01-23"),
            (
                "2025-07-21",
                "I stopped Italian and have been learning Portuguese since last month.",
                "2025-06-01",
            ),
        ),
        _fact(
            "What dose of sertraline do I take?",
            ("2025-01-24", "I take 50 mg of sertraline a day.", "2025-01-24"),
            ("2025-03-05", "My sertraline was raised to 75 mg on Tuesday.", "2025-03-04"),
        ),
        _fact(
            "Which seat should be booked for me on a plane?",
            ("2025-01-25", "I prefer aisle seats on planes.", "2025-01-25"),
            ("2025-08-04", "I prefer window seats on planes these days.", "2025-08-04"),
        ),
        _fact(
            "Where do we go on holiday in August?",
            ("2025-02-01", "We will spend the August holiday in Crete.", "2025-02-01"),
            ("2025-05-30", "We will spend the August holiday in Madeira instead of Crete.", "2025-05-30"),
        ),
        _fact(
            "When is the deadline of my thesis?",
            ("2025-02-02", "The deadline of my thesis is 15 May.", None),
            ("2025-04-28", "The deadline of my thesis has been moved to 30 June.", None),
        ),
        _fact(
            "Which book am I reading?",
            ("2025-02-03", "I am reading Middlemarch.", "2025-02-03"),
            ("2025-03-31", "Finished Middlemarch on Saturday; I am reading Dune now.", "2025-03-29"),
        ),
        _fact(
            "What is my favourite band?",
            ("2025-02-04", "My favourite band is Radiohead.", "2025-02-04"),
            ("2025-10-20", "My favorite band these days is Big Thief.", "2025-10-20"),
        ),
        _fact(
            "In which format should data be sent to me?",
            ("2025-02-05", "Send me data as XML.", "2025-02-05"),
            ("2025-02-26", "Send me data as JSON, not XML.", "2025-02-26"),
        ),
        _fact(
            "What does our team use for chat?",
            ("2025-04-14", "Our team uses Slack for chat.", "2025-04-14"),
            ("2025-10-13", "Our team uses Zulip instead of Slack for chat since 6 October.", "2025-10-06"),
        ),
        _fact(
            "What is my surname?",
            ("2025-02-06", "My surname is Visser.", "2025-02-06"),
            ("2025-12-15", "Since the wedding on 12 December, my surname is Maes.", "2025-12-12"),
        ),
        _fact(
            "Who is our landlord?",
            ("2025-03-16", "Our landlord is Mr. Peeters.", "2025-03-16"),
            ("2025-10-02", "Mrs. Claes became our landlord on 1 October.", "2025-10-01"),
        ),
        _fact(
            "With whom am I insured?",
            ("2025-02-07", "My health insurance is with CZ.", "2025-02-07"),
            ("2025-04-02", "Since yesterday my health insurance is with Partena.", "2025-04-01"),
        ),
        _fact(
            "How do I want to be notified?",
            ("2025-02-08", "Notify me by email.", "2025-02-08"),
            ("2025-06-24", "Notify me by text message, never by email.", "2025-06-24"),
        ),
        _fact(
            "How many people are in my team?",
            ("2025-04-15", "There are 6 people in my team.", "2025-04-15"),
            ("2025-08-20", "There are 9 people in my team as of last Monday.", "2025-08-18"),
        ),
    ),
    staying=(
        Said("2025-01-26", "Ann is allergic to peanuts."),
        Said("2025-01-27", "I was born in Groningen."),
        Said("2025-01-28", "My brother lives in Lisbon."),
        Said("2025-02-12", "I visited Rome with my parents last weekend."),
        Said("2025-02-18", "My parents gave me a sewing machine for my birthday."),
        Said("2025-03-01", "I like long walks by the sea."),
        Said("2025-03-09", "The boxes from the old flat are in the cellar."),
        Said("2025-04-20", "I like black olives."),
        Said("2025-05-01", "The garden needs water every second day in summer."),
        Said("2025-05-12", "My grandmother taught me to knit."),
        Said("2025-06-09", "Our cat Miso had surgery on her left eye."),
        Said("2025-06-28", "I saw Radiohead in Antwerp when I was twenty."),
        Said("2025-07-02", "I have two sisters and one brother."),
        Said("2025-07-15", "My sister works for a bank."),
        Said("2025-08-02", "I use a fountain pen for letters."),
        Said("2025-08-22", "Sam plays the cello."),
        Said("2025-09-10", "Sam drives to work."),
        Said("2025-10-10", "The wedding will be small."),
        Said("2025-11-01", "I lost my umbrella on the train."),
        Said("2025-12-20", "Sam is afraid of heights."),
    ),
    forgotten=(
        ("My salary is 61,000 euros a year.", "What do I earn?", "I earn 61,000 euros a year as my salary."),
        ("My therapist is Dr. Brandt.", "Who is my therapist?", "Dr. Brandt is my therapist."),
        ("I was treated for depression in 2019.", "Was I ever ill?", "In 2019 I was treated for depression."),
        (
            "The alarm code of our house is 4711.",
            "What is the alarm code?",
            "Our house has the alarm code 4711.",
        ),
        (
            "My father has a debt of 20,000 euros.",
            "Does my father have debts?",
            "My father is 20,000 euros in debt.",
        ),
    ),
)
