"""Three stories that need looking back: codes in a log, a plan, a ledger.

A story is what is said at the top, what is told along the way, and the facts among it.  Every
number of a fact is above those of the working and stands in one fact alone.  Knows words, not
tokens.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from engine.tasks.access_code import LETTERS


@dataclass(frozen=True)
class Fact:
    """`phrase` and `answer` make the sentence; the phrase alone makes the question."""

    name: str
    phrase: str
    answer: str
    tail: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.phrase} {self.answer}{self.tail}."

    def again(self, lead: str) -> str:
        """The sentence within another: "Looking back, the code for …"."""
        body = self.sentence
        return lead + (body[0].lower() + body[1:] if body.startswith("The ") else body)


@dataclass(frozen=True)
class Piece:
    """A part of the text.  `group`: the wide span (premise, plan) that it belongs to."""

    text: str
    fact: Fact | None = None
    group: str = ""


@dataclass(frozen=True)
class Story:
    """`opening` stands at the top in one piece; `scattered` stands among the working out."""

    opening: tuple[Piece, ...]
    scattered: tuple[Piece, ...] = ()

    @property
    def facts(self) -> list[Fact]:
        return [p.fact for p in (*self.opening, *self.scattered) if p.fact]


SIDES = ("north", "south", "east", "west", "upper", "lower", "old", "new")
DOORS = ("gate", "cellar", "tower", "garage", "library", "kitchen", "stable", "workshop")
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey")
THINGS = ("lamps", "chairs", "bottles", "boxes", "books", "coats", "plates", "ropes")
DEEDS = ("count", "weigh", "pack", "clean", "move", "sort", "paint", "sell")
NAMES = (
    "Mills", "Carter", "Bishop", "Turner", "Walsh", "Fletcher", "Hayes", "Porter",
    "Dixon", "Gibson", "Marsh", "Palmer", "Sutton", "Barker", "Lawson", "Quinn",
    "Webb", "Nolan", "Foster", "Hale", "Lambert", "Page", "Rowe", "Stone",
)  # fmt: skip


def numbers(rng: random.Random, count: int) -> list[str]:
    """Different numbers of three digits, as text."""
    return [str(n) for n in rng.sample(range(200, 1000), count)]


def pairs(rng: random.Random, first: tuple[str, ...], second: tuple[str, ...], n: int) -> list[str]:
    found = [f"{a} {b}" for a, b in itertools.product(first, second)]
    return rng.sample(found, n)


def codes(rng: random.Random, facts: int) -> Story:
    """Codes of doors that are called by names, found one by one in a working log."""
    told = [
        Fact(name, f"Code of {name}:", f"#{code}")
        for name, code in zip(
            rng.sample(NAMES, facts + 1), numbers(rng, facts + 1), strict=True
        )
    ]
    shown = told.pop().sentence
    heading = (
        "Working log. Every door has a name and a code. "
        f"A code that is needed again is copied from its line.\n{shown}\n{shown}"
    )
    return Story(
        opening=(Piece(heading, group="premise"), Piece("\n\nLog:")),
        scattered=tuple(Piece(" " + fact.sentence, fact) for fact in told),
    )


def plan(rng: random.Random, facts: int) -> Story:
    """A word problem: the numbers that are given, a plan in steps, then the working out."""
    given = (facts + 1) // 2
    items = pairs(rng, COLOURS, THINGS, given)
    amounts = numbers(rng, given + 1)
    premise = [
        Fact(item, f"Number of {item}:", amount)
        for item, amount in zip(items, amounts, strict=False)
    ]
    deeds = pairs(rng, DEEDS, tuple(f"the {thing}" for thing in THINGS), facts - given)
    steps = [Fact(f"step {k}", f"Step {k}:", deed) for k, deed in enumerate(deeds, 1)]
    carts, first = f"Number of carts: {amounts[-1]}.", "Step 0: read the problem."
    return Story(
        opening=(
            Piece(f"Problem: A shop moves to a new house. {carts}", group="premise"),
            *(Piece(" " + fact.sentence, fact, "premise") for fact in premise),
            Piece(f"\n\nPlan:\n{first}", group="plan"),
            *(Piece("\n" + fact.sentence, fact, "plan") for fact in steps),
            Piece(f"\n\nWorking:\n{carts}\n{first}\n"),
        )
    )


def ledger(rng: random.Random, facts: int) -> Story:
    """Opening amounts of accounts, then transfers between them along the way."""
    opening = (facts + 1) // 2
    owners = rng.sample(NAMES, opening + 2)
    amounts = numbers(rng, facts + 2)
    held = [Fact(name, f"Opening amount of {name}:", amounts.pop()) for name in owners[1:-1]]
    entries = rng.sample([f"{a}{b}" for a, b in itertools.product(LETTERS, LETTERS)], facts - opening + 1)
    moved = [
        Fact(f"entry {name}", f"Entry {name}:", amounts.pop(), " from {} to {}".format(*rng.sample(owners, 2)))
        for name in entries
    ]
    shown = f"Opening amount of {owners[0]}: {amounts.pop()}."
    first = moved.pop().sentence
    return Story(
        opening=(
            Piece(f"Ledger of the quarter. Opening entries:\n{shown}", group="premise"),
            *(Piece("\n" + fact.sentence, fact, "premise") for fact in held),
            Piece(f"\n\nTransfers and checks:\n{shown}\n{first}\n{first}\n"),
        ),
        scattered=tuple(Piece(" " + fact.sentence, fact) for fact in moved),
    )


FAMILIES: dict[str, Callable[[random.Random, int], Story]] = {
    "codes": codes,
    "plan": plan,
    "ledger": ledger,
}
