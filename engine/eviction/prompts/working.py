"""Sentences of long working out: true sums, doubts, checks.  None can answer a question.

Numbers stand in words here and in digits in the facts, so that no number of the working out can be
taken for a fact's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

SUMS = (
    "First {a} and {b} make {sum}.",
    "Adding {a} to {b} gives {sum}, which looks right.",
    "Taking {b} away from {sum} leaves {a}.",
    "The two small parts are {a} and {b}, so together they come to {sum}.",
    "Half of {double} is {a}, and I keep that in mind.",
    "Twice {a} is {double}, so this line is in order.",
    "{c} times {d} is {product}, and nothing is left over.",
    "If {product} is shared by {d}, each part is {c}.",
    "Counting up from {a} by {b} ends at {sum}.",
    "I write {sum} under {a} and draw a line.",
    "Between {a} and {sum} there are {b} steps.",
    "Rounding {a} does not change the result here.",
    "Check: {sum} minus {a} is {b}, as it should be.",
    "With {c} rows of {d} there are {product} squares on the sheet.",
    "A quick test with {c} and {d} gives {product} again.",
)
THOUGHTS = (
    "Let me go over this line once more.",
    "So far the work is in order.",
    "Wait, that line should be read again.",
    "Hmm, this part took longer than it should.",
    "That does not matter for the next line.",
    "I could also do this the other way round, but the result would be the same.",
    "It is better to do one thing at a time.",
    "This part is done, and the next part can begin.",
    "Let me think about the order in which these lines should be taken.",
    "Nothing has changed, so I go on.",
    "The next line is easy.",
    "I am not sure about this yet.",
    "Alternatively, the lines could be sorted first.",
    "Let me slow down and look at the small parts one by one.",
    "The same idea worked on the sheet before, so it should work here too.",
    "There is no need to hurry, because each line can be checked on its own.",
    "Good, this agrees with what I had before.",
    "I cross out the line above and write it again more neatly.",
    "Now the sheet is nearly full, so I take a new one.",
    "Another way to see this is to draw a small table and fill it in.",
    "That was a slip of the pen, and it is put right now.",
    "The rest of this line follows in the same way.",
)


def in_words(number: int) -> str:
    """A whole number below 1000, as English writes it."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{ONES[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")


def sentence(rng: random.Random, template: str) -> str:
    a, b = rng.randrange(11, 90), rng.randrange(11, 90)
    c, d = rng.randrange(3, 14), rng.randrange(3, 14)
    values = {"a": a, "b": b, "c": c, "d": d, "sum": a + b, "double": 2 * a, "product": c * d}
    text = template.format(**{name: in_words(value) for name, value in values.items()})
    return text[0].upper() + text[1:]


def sentences(rng: random.Random) -> Iterator[str]:
    """Without end; every template is used once before any is used again."""
    while True:
        order = [*SUMS, *THOUGHTS]
        rng.shuffle(order)
        for template in order:
            yield sentence(rng, template)
