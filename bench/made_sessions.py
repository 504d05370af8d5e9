"""Conversations made by rule, in the manner of LongMemEval: each has one fact about its user among small talk, and questions ask for the
fact weeks later, in other words or other forms of the words.

Law: the same numbers give the same sessions; nothing is drawn from this machine.
"""

import random
from dataclasses import dataclass

SESSIONS = 600
SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the session that answers it, and how it differs from what was said there."""

    text: str
    session: str
    kind: str


_PEOPLE = [
    "Ada",
    "Bruno",
    "Chiara",
    "Dmitri",
    "Elif",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Katya",
    "Luca",
    "Mara",
    "Nadia",
    "Oskar",
    "Petra",
    "Quentin",
    "Rosa",
    "Sven",
    "Tilda",
]
_THINGS = (
    "bicycle", "violin", "telescope", "greenhouse", "kayak", "typewriter", "camera", "accordion", "sewing machine", "chess set",
    "motorcycle", "tent", "espresso machine", "piano", "canoe", "drone", "loom", "microscope", "record player", "surfboard",
)  # fmt: skip
_PLACES = [
    "Porto",
    "Bergen",
    "Naples",
    "Gdansk",
    "Izmir",
    "Cork",
    "Split",
    "Tartu",
    "Lyon",
    "Bilbao",
    "Ghent",
    "Bari",
    "Aarhus",
    "Graz",
    "Brno",
    "Vilnius",
    "Turku",
    "Riga",
    "Basel",
    "Padua",
]
_CHATTER = (
    "What is the weather going to be like tomorrow?",
    "Please write a short poem about autumn.",
    "How do I boil an egg so that it stays soft?",
    "Tell me a joke about programmers.",
    "Which films came out this year?",
    "How many grams are in an ounce?",
    "Please translate good morning into French.",
    "What should I cook for six guests?",
    "Help me plan a walk for Sunday.",
    "Explain how tides work, please.",
    "I need a polite reply to a long email.",
    "Is it better to run before or after breakfast?",
)
_FACTS = (
    # what was said, then questions: in the same words, in other forms of them, in other words
    ("{p} sold the {t} to a neighbour in {c}.", "Who sold the {t} in {c}?", "Who is selling a {t} in {c}?", "Who got rid of a {t} in {c}?"),
    (
        "{p} repaired the {t} in {c} last week.",
        "Who repaired the {t} in {c}?",
        "Who does repairs of a {t} in {c}?",
        "Who mended the {t} in {c}?",
    ),
    (
        "{p} moved to {c} and took the {t} along.",
        "Who moved to {c} with a {t}?",
        "Who is moving to {c} with the {t}?",
        "Who lives in {c} now and has a {t}?",
    ),
    (
        "{p} is allergic to the varnish of the {t} from {c}.",
        "Who is allergic to the {t} from {c}?",
        "Whose allergy comes from a {t} in {c}?",
        "Who cannot stand the {t} from {c}?",
    ),
    (
        "{p} studies how a {t} is built, at the college of {c}.",
        "Who studies the {t} at {c}?",
        "Who is studying {t} building in {c}?",
        "Who learns about a {t} in {c}?",
    ),
)
_KINDS = ("in the same words", "in other forms", "in other words")


def made_sessions() -> tuple[dict[str, str], list[Asked]]:
    """The text of each session by its name, and the questions."""
    dice = random.Random(SEED)
    places = [(thing, city) for thing in _THINGS for city in _PLACES]
    dice.shuffle(places)
    telling = iter(places)
    holds = dice.sample([True] * len(places) + [False] * (SESSIONS - len(places)), SESSIONS)
    sessions: dict[str, str] = {}
    asked: list[Asked] = []
    for number in range(SESSIONS):
        name = f"session-{number:04d}"
        small_talk: list[str] = dice.sample(_CHATTER, 4)
        if holds[number]:
            (thing, city), person = next(telling), dice.choice(_PEOPLE)
            fact, *questions = (text.format(p=person, t=thing, c=city) for text in dice.choice(_FACTS))
            small_talk.insert(dice.randrange(5), fact)
            asked += [Asked(question, name, kind) for question, kind in zip(questions, _KINDS, strict=True)]
        # what could be mistaken for an answer: the same things and the same towns, apart
        small_talk.append(f"I read about a {dice.choice(_THINGS)} today, and {dice.choice(_PEOPLE)} was in {dice.choice(_PLACES)} once.")
        sessions[name] = "\n".join(small_talk)
    return sessions, asked
