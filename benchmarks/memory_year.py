"""What a person tells an assistant in a year: facts that change, others that stay, and some to forget.

usage: python -m benchmarks.memory_year

A fact has a question, and what was said about it in order: the day, the words, and the day from which it
holds. The words of the first year were written before the code that reads them; those of the second after it,
and nothing was changed for them.

For each year: how many changed facts the first result of `recall` states as they are now, how many have the
right first day, how many name what they replaced, how many statements that stay were replaced, and how many
forgotten ones came back, by being asked for or by being said again, and how many were learned again in other
words, which no digest recognises.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal import Engine
from shoal.errors import NoteError
from shoal.notes.notes import OwnerNotes


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
    """A year: facts that change, statements that stay, and statements to forget, each with its question and
    with other words for it."""

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


# Written after the code that reads it.
SECOND = Year(
    changing=(
        _fact(
            "In which city does Karin live?",
            ("2025-01-03", "Karin is based in Lyon.", "2025-01-03"),
            ("2025-05-14", "Karin relocated to Nantes at the beginning of May.", "2025-05-01"),
        ),
        _fact(
            "Who does the user work for?",
            ("2025-01-03", "The user is employed by Airbus.", "2025-01-03"),
            ("2025-06-18", "The user joined Thales last week.", "2025-06-09"),
        ),
        _fact(
            "Who is the user's doctor?",
            ("2025-01-04", "The user's doctor is Dr. Moreau.", "2025-01-04"),
            ("2025-03-10", "The user's doctor is now Dr. Petit.", "2025-03-10"),
        ),
        _fact(
            "Which browser does the user prefer?",
            ("2025-01-04", "Prefers Chrome as a browser.", "2025-01-04"),
            ("2025-02-27", "Prefers Firefox as a browser now.", "2025-02-27"),
        ),
        _fact(
            "When is the book club?",
            ("2025-01-05", "The book club meets on Wednesdays.", "2025-01-05"),
            ("2025-04-09", "The book club meets on Sundays since last month.", "2025-03-01"),
        ),
        _fact(
            "What is the door code of the office?",
            ("2025-01-06", "The door code of the office is 8841.", "2025-01-06"),
            ("2025-07-02", "The door code of the office was changed to 2290 yesterday.", "2025-07-01"),
        ),
        _fact(
            "What does Karin drink in the morning?",
            ("2025-01-07", "Karin drinks black tea in the morning.", "2025-01-07"),
            ("2025-10-06", "Karin drinks oat milk cocoa in the morning instead of black tea.", "2025-10-06"),
        ),
        _fact(
            "How tall is Max?",
            ("2025-01-08", "Max is 112 cm tall.", "2025-01-08"),
            ("2025-09-12", "Max is 118 cm tall now.", "2025-09-12"),
        ),
        _fact(
            "What is my usual running distance?",
            ("2025-01-09", "I usually run 8 km on weekends.", "2025-01-09"),
            ("2025-08-11", "I have been running 12 km on weekends since July.", "2025-07-01"),
        ),
        _fact(
            "Which gym am I a member of?",
            ("2025-01-10", "I am a member of the Basic-Fit gym.", "2025-01-10"),
            (
                "2025-05-22",
                "I cancelled Basic-Fit and became a member of a climbing gym on Monday.",
                "2025-05-19",
            ),
        ),
        _fact(
            "What should my coffee be like?",
            ("2025-01-11", "I take my coffee with sugar.", "2025-01-11"),
            ("2025-03-17", "I take my coffee without sugar from now on.", "2025-03-17"),
        ),
        _fact(
            "Who walks the dog?",
            ("2025-01-12", "Our dog walker is Ines.", "2025-01-12"),
            ("2025-11-04", "Ines stopped; our new dog walker is Paul.", "2025-11-04"),
        ),
        _fact(
            "How do I get to work?",
            ("2025-01-13", "I commute by train.", "2025-01-13"),
            ("2025-06-05", "I commute by bicycle these days.", "2025-06-05"),
        ),
        _fact(
            "Which laptop do I use?",
            ("2025-01-14", "My laptop is a ThinkPad X1.", "2025-01-14"),
            ("2025-07-30", "I swapped the ThinkPad for a MacBook Air three days ago.", "2025-07-27"),
        ),
        _fact(
            "What is my landline number?",
            ("2025-01-15", "Landline: 040 123 456.", "2025-01-15"),
            ("2025-04-24", "The landline is 040 987 654 as of today.", "2025-04-24"),
        ),
        _fact(
            "What time does Max go to bed?",
            ("2025-01-16", "Max goes to bed at 19:30.", "2025-01-16"),
            ("2025-09-08", "Max goes to bed at 20:00 since school began on 1 September.", "2025-09-01"),
        ),
        _fact(
            "Which streaming service do we pay for?",
            ("2025-01-17", "We subscribe to Netflix.", "2025-01-17"),
            ("2025-02-19", "We dropped Netflix last weekend and subscribe to Mubi.", "2025-02-15"),
        ),
        _fact(
            "What is my favourite dish?",
            ("2025-01-18", "Lasagne is my favourite dish.", "2025-01-18"),
            ("2025-08-21", "My favourite dish is ramen nowadays.", "2025-08-21"),
        ),
        _fact(
            "What is Max allergic to?",
            ("2025-01-19", "Max is allergic to eggs.", "2025-01-19"),
            ("2025-12-09", "Max is no longer allergic to eggs.", "2025-12-09"),
        ),
        _fact(
            "How do I like to be addressed?",
            ("2025-01-20", "Call me Mr. Jansen.", "2025-01-20"),
            ("2025-01-29", "Call me Piet, not Mr. Jansen.", "2025-01-29"),
        ),
        _fact(
            "What is the project called?",
            ("2025-01-21", "The project is called Heron.", "2025-01-21"),
            ("2025-04-16", "The project was renamed to Osprey on 14 April.", "2025-04-14"),
        ),
        _fact(
            "When is the release?",
            ("2025-01-22", "The release is planned for March.", None),
            ("2025-02-24", "The release has been postponed to May.", None),
        ),
        _fact(
            "Who leads the design team?",
            ("2025-01-23", "Noor leads the design team.", "2025-01-23"),
            ("2025-10-15", "Since the beginning of October, Femke leads the design team.", "2025-10-01"),
        ),
        _fact(
            "Where do we keep the backups?",
            ("2025-01-24", "We keep the backups on Dropbox.", "2025-01-24"),
            ("2025-03-26", "We moved the backups from Dropbox to Hetzner last Thursday.", "2025-03-20"),
        ),
        _fact(
            "Which database does the shop use?",
            ("2025-01-25", "The shop uses MySQL.", "2025-01-25"),
            ("2025-06-26", "The shop uses PostgreSQL now.", "2025-06-26"),
        ),
        _fact(
            "How long are our sprints?",
            ("2025-01-26", "Our sprints are two weeks long.", "2025-01-26"),
            ("2025-05-08", "Our sprints are three weeks long from 12 May.", "2025-05-12"),
        ),
        _fact(
            "What is my marital status?",
            ("2025-01-27", "I am married to Els.", "2025-01-27"),
            ("2025-11-20", "Els and I got divorced in October.", "2025-10-01"),
        ),
        _fact(
            "What is Karin studying?",
            ("2025-01-28", "Karin studies chemistry.", "2025-01-28"),
            ("2025-09-17", "Karin quit chemistry and studies law.", "2025-09-17"),
        ),
        _fact(
            "Do I drink alcohol?",
            ("2025-01-29", "I drink wine with dinner.", "2025-01-29"),
            ("2025-02-03", "I don't drink wine any more.", "2025-02-03"),
        ),
        _fact(
            "What is my shoe size?",
            ("2025-01-30", "My shoe size is 42.", "2025-01-30"),
            ("2025-08-07", "My shoe size is 43, not 42.", "2025-08-07"),
        ),
        _fact(
            "Which theme should the editor have?",
            ("2025-01-31", "Use the dark theme in my editor.", "2025-01-31"),
            ("2025-06-12", "Use the light theme in my editor.", "2025-06-12"),
        ),
        _fact(
            "Who cuts my hair?",
            ("2025-02-01", "My hairdresser is Lotte.", "2025-02-01"),
            ("2025-07-10", "I have a new hairdresser, Bram, since last Saturday.", "2025-07-05"),
        ),
        _fact(
            "How many employees does the company have?",
            ("2025-02-02", "The company has 40 employees.", "2025-02-02"),
            ("2025-12-03", "The company has grown to 55 employees.", "2025-12-03"),
        ),
        _fact(
            "Where do I buy bread?",
            ("2025-02-03", "I buy bread at the Wouters bakery.", "2025-02-03"),
            ("2025-10-23", "Wouters closed two weeks ago, so I buy bread at the market.", "2025-10-09"),
        ),
        _fact(
            "What is the heating set to?",
            ("2025-02-04", "The heating is set to 21 degrees.", "2025-02-04"),
            ("2025-11-12", "We lowered the heating to 19 degrees on 1 November.", "2025-11-01"),
        ),
        _fact(
            "Which instrument does Max play?",
            ("2025-02-05", "Max plays the recorder.", "2025-02-05"),
            ("2025-09-29", "Max gave up the recorder and plays the drums.", "2025-09-29"),
        ),
        _fact(
            "How do I feel about flying?",
            ("2025-02-06", "I enjoy flying.", "2025-02-06"),
            ("2025-08-26", "I dislike flying since the storm in July.", "2025-07-01"),
        ),
        _fact(
            "What is our address?",
            ("2025-02-07", "Our address is Kerkstraat 12.", "2025-02-07"),
            ("2025-10-30", "From 1 December our address will be Molenweg 3.", "2025-12-01"),
        ),
        _fact(
            "Which newspaper do I read?",
            ("2025-02-08", "I read the Guardian every day.", "2025-02-08"),
            ("2025-05-02", "I switched to the Irish Times in April.", "2025-04-01"),
        ),
        _fact(
            "What is my role in the choir?",
            ("2025-02-09", "I sing tenor in the choir.", "2025-02-09"),
            ("2025-12-11", "I sing bass in the choir since last month.", "2025-11-01"),
        ),
    ),
    staying=(
        Said("2025-02-10", "Karin was born in Brest."),
        Said("2025-02-11", "My brother works for Renault."),
        Said("2025-02-12", "Max likes dinosaurs."),
        Said("2025-02-14", "I visited Porto with Els."),
        Said("2025-03-01", "My mother lives in Delft."),
        Said("2025-03-08", "The printer is on the second floor."),
        Said("2025-03-30", "Max has a blue bicycle."),
        Said("2025-04-01", "I enjoy crossword puzzles."),
        Said("2025-04-18", "Noor speaks Arabic and Dutch."),
        Said("2025-05-05", "We spent Easter in the Ardennes."),
        Said("2025-05-25", "Ines has a dog of her own."),
        Said("2025-06-01", "The garden is behind the house."),
        Said("2025-06-22", "My mother plays bridge on Tuesdays."),
        Said("2025-07-14", "I read Moby-Dick on holiday."),
        Said("2025-08-01", "The company was founded in 1998."),
        Said("2025-08-18", "Karin has a scar on her chin."),
        Said("2025-09-03", "Max goes to school with Finn."),
        Said("2025-10-12", "I own a cabin in Norway."),
        Said("2025-11-11", "Femke moved the plant to the window."),
        Said("2025-12-19", "My mother prefers tea."),
    ),
    forgotten=(
        ("My blood type is AB negative.", "What is my blood type?", "AB negative is my blood type."),
        ("I was arrested in 2011.", "Was I ever arrested?", "In 2011 I was arrested."),
        ("My PIN is 9034.", "What is my PIN?", "The PIN of mine is 9034."),
        ("Karin takes lithium.", "Which medicine does Karin take?", "Lithium is what Karin takes."),
        ("My brother owes me 3,000 euros.", "Who owes me money?", "3,000 euros is what my brother owes me."),
    ),
)


class Outcome(NamedTuple):
    """What became of a year. `wrong`: what was not as it should be, in words."""

    n_facts: int
    n_valid_first: int
    n_dates: int
    n_dates_right: int
    n_replaced_named: int
    n_staying_replaced: int
    n_forgotten_back: int
    n_reworded_stored: int
    wrong: tuple[str, ...]


def live(notes: OwnerNotes, year: Year) -> Outcome:
    """Tell a year in the order of its days, forget what is to be forgotten, and ask."""
    said = [*year.staying, *(each for fact in year.changing for each in fact.said)]
    ids: dict[str, int] = {}
    for each in sorted(said, key=lambda each: each.on):
        ids[each.text] = _remember(notes, each.text, each.on)
    back, n_reworded = [], 0
    for text, question, reworded in year.forgotten:
        notes.forget(_remember(notes, text, "2025-06-15"))
        again, in_other_words = notes.remember([_item(each, "2025-07-15") for each in (text, reworded)])
        n_reworded += not isinstance(in_other_words, NoteError)
        found = notes.recall(question, threshold=0.0, top_k=50).results
        if not isinstance(again, NoteError) or any(each.content == text for each in found):
            back.append(text)
    wrong = [f"came back: {text}" for text in back]
    n_valid = n_named = 0
    dates = []
    for fact in year.changing:
        valid, former = fact.said[-1], fact.said[-2]
        results = notes.recall(fact.question, threshold=0.0).results
        first = results[0] if results else None
        is_valid = first is not None and first.content == valid.text
        n_valid += is_valid
        n_named += is_valid and first is not None and any(each.text == former.text for each in first.replaced)
        if not is_valid:
            wrong.append(f"{fact.question} {None if first is None else first.content}")
        if valid.holds_from is not None:
            day = notes.get(ids[valid.text]).valid_from
            dates.append(day == valid.holds_from)
            if not dates[-1]:
                wrong.append(f"{valid.text} {day} instead of {valid.holds_from}")
    replaced = [each.text for each in year.staying if notes.get(ids[each.text]).superseded_by is not None]
    wrong += [f"replaced: {text}" for text in replaced]
    n = len(year.changing)
    counts = (n, n_valid, len(dates), sum(dates), n_named, len(replaced), len(back), n_reworded)
    return Outcome(*counts, tuple(wrong))


def _item(text: str, on: str) -> dict[str, Any]:
    return {"content": text, "topic": "person", "confidence": 0.95, "said_at": on}


def _remember(notes: OwnerNotes, text: str, on: str) -> int:
    [added] = notes.remember([_item(text, on)])
    assert not isinstance(added, NoteError), (text, added)
    return added.note.id


YEARS: dict[str, Year] = {"first": FIRST, "second": SECOND}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    for name, year in YEARS.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            Engine(Path(folder) / "year.db") as engine,
        ):
            found = live(engine.notes.of("someone"), year)
        print(
            f"{name} year: valid one first {found.n_valid_first} of {found.n_facts}, dates right "
            f"{found.n_dates_right} of {found.n_dates}, replaced one named {found.n_replaced_named}, staying "
            f"ones replaced {found.n_staying_replaced} of {len(year.staying)}, forgotten ones back "
            f"{found.n_forgotten_back} of {len(year.forgotten)}, in other words learned again "
            f"{found.n_reworded_stored}"
        )
        for line in found.wrong:
            print(f"    {line}")


if __name__ == "__main__":
    main()
