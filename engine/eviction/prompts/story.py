"""Three stories that need looking back: codes in a log, a plan, a ledger.

A story is what is said at the top, what is told along the way, and the facts among it.  Each answer
stands in one fact alone.  A fact is asked by reading on from the line before it: a small model
then knows that a line is to be copied (SmolLM2-135M recalls most facts so, and less than half when
the phrase alone is asked).  Knows words, not tokens.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from engine.tasks.access_code import LETTERS


@dataclass(frozen=True)
class Fact:
    """`phrase` and `answer` make the sentence; `cue` is the line that stood before it."""

    name: str
    phrase: str
    answer: str
    tail: str = ""
    cue: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.phrase} {self.answer}{self.tail}."

    @property
    def ask(self) -> str:
        """What is put behind everything, so that the answer follows."""
        return f"\n{self.cue}\n{self.phrase}"

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


SIDES = ["north", "south", "east", "west", "upper", "lower", "old", "new"]
DOORS = ["gate", "cellar", "tower", "garage", "library", "kitchen", "stable", "workshop"]
DEEDS = ["count", "weigh", "pack", "clean", "move", "sort", "paint", "sell"]
THINGS = [
    "lamps", "chairs", "bottles", "boxes", "books", "coats", "plates", "ropes",
    "tables", "clocks", "knives", "blankets", "baskets", "mirrors", "curtains", "shirts",
    "buckets", "ladders", "pianos", "carpets", "candles", "hammers", "bicycles", "tents",
]  # fmt: skip
NAMES = [
    "Mills", "Carter", "Bishop", "Turner", "Walsh", "Fletcher", "Hayes", "Porter",
    "Dixon", "Gibson", "Marsh", "Palmer", "Sutton", "Barker", "Lawson", "Quinn",
    "Webb", "Nolan", "Foster", "Hale", "Lambert", "Page", "Rowe", "Stone",
]  # fmt: skip


def numbers(rng: random.Random, count: int, digits: int) -> list[str]:
    """Different numbers of so many digits, as text."""
    low = 10 ** (digits - 1)
    return [str(n) for n in rng.sample(range(2 * low, 10 * low), count)]


def pairs(rng: random.Random, first: list[str], second: list[str], count: int) -> list[str]:
    """Different pairs of a word of each; no word comes again before all of its list have come."""
    a, b = rng.sample(first, len(first)), rng.sample(second, len(second))
    return [f"{a[i % len(a)]} {b[(i + i // len(a)) % len(b)]}" for i in range(count)]


def chain(facts: Iterable[Fact]) -> list[Fact]:
    """The facts but the first, each with the one before it as its cue.  The first is not asked."""
    return [replace(b, cue=a.sentence) for a, b in itertools.pairwise(facts)]


def codes(rng: random.Random, facts: int) -> Story:
    """Codes of named doors, found one by one in a working log."""
    doors, found = pairs(rng, SIDES, DOORS, facts + 1), numbers(rng, facts + 1, 4)
    lines = [
        Fact(door, f"The code for the {door} is", code)
        for door, code in zip(doors, found, strict=True)
    ]
    heading = (
        "Working log. The code of each door is written down when it is found. "
        f"{lines[0].sentence} All codes are needed again at the end."
    )
    return Story(
        opening=(Piece(heading, group="premise"), Piece("\n\nLog:")),
        scattered=tuple(Piece("\n" + fact.sentence, fact) for fact in chain(lines)),
    )


def plan(rng: random.Random, facts: int) -> Story:
    """A word problem: the numbers that are given, a plan in steps, then the working out."""
    given = (facts + 1) // 2
    things = ["carts", *rng.sample(THINGS, given)]
    lines = [
        Fact(thing, f"The number of {thing} is", amount)
        for thing, amount in zip(things, numbers(rng, given + 1, 3), strict=True)
    ]
    moved = rng.sample(THINGS, facts - given)
    deeds = ["read the problem", *(f"{rng.choice(DEEDS)} the {thing}" for thing in moved)]
    steps = [Fact(f"step {k}", f"Step {k} is to", deed) for k, deed in enumerate(deeds)]
    return Story(
        opening=(
            Piece(f"Problem: A shop moves to a new house.\n{lines[0].sentence}", group="premise"),
            *(Piece("\n" + fact.sentence, fact, "premise") for fact in chain(lines)),
            Piece(f"\n\nPlan:\n{steps[0].sentence}", group="plan"),
            *(Piece("\n" + fact.sentence, fact, "plan") for fact in chain(steps)),
            Piece("\n\nWorking:"),
        )
    )


def ledger(rng: random.Random, facts: int) -> Story:
    """Opening amounts of accounts, then transfers between them along the way."""
    opening = (facts + 1) // 2
    owners = rng.sample(NAMES, opening + 1)
    amounts = numbers(rng, facts + 2, 3)
    lines = [Fact(name, f"The opening amount of {name} is", amounts.pop()) for name in owners]
    names = rng.sample([a + b for a, b in itertools.product(LETTERS, LETTERS)], len(amounts))
    entries = []
    for name, amount in zip(names, amounts, strict=True):
        giver, taker = rng.sample(owners, 2)
        tail = f" from {giver} to {taker}"
        entries.append(Fact(f"entry {name}", f"Entry {name} moves", amount, tail))
    head = f"Ledger of the quarter. Opening entries:\n{lines[0].sentence}"
    return Story(
        opening=(
            Piece(head, group="premise"),
            *(Piece("\n" + fact.sentence, fact, "premise") for fact in chain(lines)),
            Piece(f"\n\nTransfers and checks:\n{entries[0].sentence}"),
        ),
        scattered=tuple(Piece("\n" + fact.sentence, fact) for fact in chain(entries)),
    )


FAMILIES: dict[str, Callable[[random.Random, int], Story]] = {
    "codes": codes,
    "plan": plan,
    "ledger": ledger,
}
