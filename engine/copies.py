"""Phase copies: the same facts at every residue (SCIENCE §2).

Knows tokens and positions.  Knows nothing about models, memory or storage.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

from engine.registry import FieldError, SpecError


@dataclass(frozen=True)
class Slot:
    """A place before token `at` of a sample where fillers may stand.

    `name`: "front" and "back" (outer), "before" and "after" the target (in_sequence), or "pad"
    (lengthen).
    """

    name: str
    at: int


@dataclass(frozen=True)
class LogicalSample:
    """One question with its facts, on token ids, without any filler."""

    index: int
    tokens: tuple[int, ...]
    roles: tuple[str, ...]  # one of rows.ROLES per token
    target: tuple[int, int]  # [start, stop) of the fact's tokens
    answer: tuple[int, ...]  # gold continuation after the last token
    rivals: tuple[int, ...]  # first tokens of wrong continuations
    rival_texts: tuple[str, ...]
    answer_text: str
    slots: tuple[Slot, ...]
    filler: int  # token id that a slot takes any number of times
    context_end: int  # tokens before it are context, from it on the query (after_context memory)
    shifted: LogicalSample | None = None  # the other document of a pair
    layout: Any = None  # makes the copies where fillers in slots will not do: `copies`


@dataclass(frozen=True)
class Copy:
    """A sample at one residue.  `tokens` is the prompt; `answer` follows it when scored."""

    sample: int
    shift: int
    residue: int
    tokens: tuple[int, ...]
    roles: tuple[str, ...]
    target: tuple[int, int]
    answer: tuple[int, ...]
    rivals: tuple[int, ...]
    context_end: int
    origin: int = 0
    shared: int = 0  # leading tokens, and grid, that all copies of the sample have in common

    @property
    def query_position(self) -> int:
        return len(self.tokens) - 1


# Which slots a protocol fills: the first takes a + r fillers, the second (if any) b - r.
SLOTS = {"outer": ("front", "back"), "in_sequence": ("before", "after"), "lengthen": ("pad",)}


def phase_copies(sample: LogicalSample, protocol: str, modulus: int) -> list[Copy]:
    """The copies of one sample, one per residue, sorted by shift and verified (SCIENCE §2).

    "pair" gives two copies, the documents in order; their residue is the document's number.
    Raises SpecError when the sample lacks a slot that the protocol needs, or a check fails.
    """
    if sample.layout is not None:
        copies = sample.layout.copies(sample, protocol, modulus)
        shared = _shared(copies)
        return [replace(copy, shared=shared) for copy in copies]
    if protocol == "pair":
        copies = _pair(sample)
    elif protocol == "grid_origin":
        copies = [_padded(sample, {}, r, modulus, origin=r) for r in range(modulus)]
    else:
        first, *rest = _slots(sample, protocol)
        lead = lead_fillers(sample.index, modulus) if rest else 0
        copies = []
        for r in range(modulus):
            counts = {first.name: lead + r} | {slot.name: modulus - 1 - r for slot in rest}
            copies.append(_padded(sample, counts, r, modulus))
    verify(sample, protocol, modulus, copies)
    shared = _shared(copies)
    return [replace(copy, shared=shared) for copy in copies]


def _shared(copies: list[Copy]) -> int:
    """Length of the longest common beginning of all copies' tokens; 0 where their grids differ."""
    if len({copy.origin for copy in copies}) > 1:
        return 0
    columns = zip(*(copy.tokens for copy in copies), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def lead_fillers(index: int, modulus: int) -> int:
    """a: fillers that stand in front of the target at every shift of sample `index`, 0 to 2R - 2.

    Without them a residue would stand at the same distance from the start of every sample, and the
    residue groups would differ in their mean position.  G = u + v with u, v uniform on R makes mean
    and variance equal in all groups, exactly after R² samples.  The lattice visits
    all residues of G in each run of R samples, so the means are equal after any multiple of R.
    Each run is a step away from the last, not beside it: the variances are near before R² too.
    Sample 0 has none.
    """
    step, stride = _coprime(modulus, 0.382), _coprime(modulus, 0.618)
    u, v = index * step, index * (stride - step) + index // modulus * step
    return u % modulus + v % modulus


def _coprime(modulus: int, share: float) -> int:
    """The number nearest to share x modulus that has no factor in common with modulus."""
    aim = share * modulus
    near = sorted(range(1, modulus + 1), key=lambda k: abs(k - aim))
    return next(k for k in near if math.gcd(k, modulus) == 1)


def _slots(sample: LogicalSample, protocol: str) -> list[Slot]:
    """The protocol's slots, which must stand on the sides of the target that they shift."""
    have = {slot.name: slot for slot in sample.slots}
    missing = [name for name in SLOTS[protocol] if name not in have]
    if missing:
        raise _refusal(
            f"{protocol} needs the slots {' and '.join(SLOTS[protocol])}; this prompt has "
            f"{' and '.join(have) or 'none'}"
        )
    first, *rest = [have[name] for name in SLOTS[protocol]]
    if first.at > sample.target[0]:
        raise _refusal(
            "the pad slot stands behind the target's start, so fillers cannot move the target"
        )
    if rest and rest[0].at < sample.target[1]:
        raise _refusal(
            "the second pad slot must stand behind the target, so that the query stays in place"
        )
    return [first, *rest]


def _padded(
    sample: LogicalSample, counts: dict[str, int], shift: int, modulus: int, origin: int = 0
) -> Copy:
    """The sample with `counts[slot name]` fillers in its slots."""
    places = sorted((slot.at, counts[slot.name]) for slot in sample.slots if slot.name in counts)
    tokens, roles, done = [], [], 0
    for at, count in places:
        tokens += [*sample.tokens[done:at], *[sample.filler] * count]
        roles += [*sample.roles[done:at], *["pad"] * count]
        done = at
    tokens += sample.tokens[done:]
    roles += sample.roles[done:]
    moved = sum(count for at, count in places if at <= sample.target[0])
    before_query = sum(count for at, count in places if at <= sample.context_end)
    start = sample.target[0] + moved
    return Copy(
        sample=sample.index,
        shift=shift,
        residue=(start - origin) % modulus,
        tokens=tuple(tokens),
        roles=tuple(roles),
        target=(start, sample.target[1] + moved),
        answer=sample.answer,
        rivals=sample.rivals,
        context_end=sample.context_end + before_query,
        origin=origin,
    )


def _pair(sample: LogicalSample) -> list[Copy]:
    if sample.shifted is None:
        raise _refusal("pair needs a second document")
    both = [_padded(document, {}, 0, 2) for document in (sample, sample.shifted)]
    return [replace(copy, sample=sample.index, shift=r, residue=r) for r, copy in enumerate(both)]


def one_cycle(copies: list[Copy], stride: int | None) -> list[Copy]:
    """One copy per phase of each sample, the shifts below the stride: enough to compare layers."""
    return [copy for copy in copies if stride is None or copy.shift < stride]


def token_residues(copy: Copy, modulus: int) -> list[int]:
    """The residue of each answer token's own source.

    Where the target holds the answer's ids in a row, answer token i was read from the i-th of them;
    otherwise (a paraphrase, another split into tokens) all of them count at the target's start.
    """
    start, stop = copy.target
    held, width = copy.tokens[start:stop], len(copy.answer)
    for at in range(len(held) - width + 1):
        if held[at : at + width] == copy.answer:
            return [(start + at + i - copy.origin) % modulus for i in range(width)]
    return [(start - copy.origin) % modulus] * width


def verify(sample: LogicalSample, protocol: str, modulus: int, copies: list[Copy]) -> None:
    """Check finished copies against the protocol's promises; SpecError names the broken rule.

    Looks at the copies alone, not at how they were made.
    """
    first = copies[0]
    documents = [sample] if protocol != "pair" else [sample, sample.shifted]
    for copy in copies:
        source = documents[copy.shift if protocol == "pair" else 0]
        _require(len(copy.tokens) == len(copy.roles), "a copy has not one role for each token")
        facts = tuple(t for t, role in zip(copy.tokens, copy.roles, strict=True) if role != "pad")
        _require(facts == source.tokens, "a copy differs from its sample by more than fillers")
        held = copy.tokens[slice(*copy.target)]
        _require(
            held == source.tokens[slice(*source.target)], "a copy's target is not the sample's"
        )
        _require(copy.answer == first.answer, "the copies of one sample have different answers")
    if protocol == "pair":
        return
    residues = sorted(copy.residue for copy in copies)
    _require(residues == list(range(modulus)), "the copies do not meet every residue exactly once")
    for copy in copies:
        _require(
            copy.residue == (copy.target[0] - copy.origin) % modulus,
            "a copy's residue is not its target's",
        )
        moved = copy.target[0] - first.target[0]
        if protocol == "grid_origin":
            _require(
                copy.tokens == first.tokens and copy.origin == copy.shift,
                "grid origin moved tokens",
            )
            continue
        _require(
            moved == copy.shift and copy.origin == 0, "a copy's target did not move by its shift"
        )
        if protocol == "lengthen":
            _require(
                len(copy.tokens) == len(first.tokens) + copy.shift,
                "a copy did not grow by its shift",
            )
            continue
        _require(len(copy.tokens) == len(first.tokens), "the copies differ in length")
        _require(copy.context_end == first.context_end, "the query moved")
        if protocol == "in_sequence":
            _require(
                _fixed(sample, copy) == _fixed(sample, first), "more than the target's record moved"
            )


def _fixed(sample: LogicalSample, copy: Copy) -> list[int]:
    """Positions in the copy of all tokens of the sample that lie outside the moving record."""
    span = {slot.name: slot.at for slot in sample.slots}
    own = [t for t, role in enumerate(copy.roles) if role != "pad"]
    return own[: span["before"]] + own[span["after"] :]


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise _refusal(f"{rule}; this prompt cannot be padded that way")


def _refusal(message: str) -> SpecError:
    return SpecError(FieldError("protocol", message))
