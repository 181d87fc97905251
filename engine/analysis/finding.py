"""The headline and the line of doubt, by fixed rules from the statistics (SCIENCE §3).

Two claims are never mixed: a *period* says that the memory acts with it; a *weak phase* says that
one phase is worse across prompts.  A sentence never says more than the intervals, both tests and
the control allow.  A test holds each rule.  Knows the report's dict; computes no statistic.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.analysis.words import every, number, p_value, prompts, two

LEVEL = 0.05
ARTEFACT = "a numerics or prompt artefact, or chance"
FLAT = 0.05  # a control's gap up to this, not significant, is called flat


class Seen(NamedTuple):
    """What one block of the report may claim."""

    period: int | None
    weak: bool  # a weak phase across prompts: p and the interval both say so

    @property
    def anything(self) -> bool:
        return self.period is not None or self.weak


def seen(block: dict | None) -> Seen:
    """The claims of a run or of its control.  Without a grid the gap's p alone decides."""
    if not block or not block["n_complete"]:
        return Seen(None, False)
    low, p, excess = block["excess_low"], block["gap_p"], block["excess"]
    sure = (low is None or low > 0) and (excess is None or excess > 0)
    weak = p is not None and p <= LEVEL and block["n_complete"] > 1 and sure
    return Seen(block["period"]["detected"], weak)


def say(result: dict, note: str = "", control_name: str = "the full cache") -> tuple[str, str]:
    """(finding, doubt) of a report.  The finding has no full stop: it is a headline."""
    if not result["n_samples"]:
        return "No answers yet", note
    if result["protocol"] == "pair":
        return _join(_pair_finding(result), _pair_doubt(result, control_name), note)
    if not result["n_complete"]:
        return "No prompt has been answered at every residue yet", note
    doubt = [_own_line(result), _control_line(result, control_name)]
    if result["protocol"] == "lengthen":
        doubt.append(
            "Lengthen is the weakest protocol: length and query position move with the phase."
        )
    if result["period"]["configured"]:
        find = _finding(result, control_name)
    elif result["compressed"]:
        find = _without_grid(result, control_name)
    else:
        find = _uncompressed(result)
    return _join(find, doubt, note)


def _join(find: str, doubt: list[str], note: str) -> tuple[str, str]:
    return find, " ".join(filter(None, [*doubt, note.strip()]))


def _finding(result: dict, control_name: str) -> str:
    """The headline of a memory with a grid."""
    n, stride, control = result["n_complete"], result["period"]["configured"], result["control"]
    own, other = seen(result), seen(control)
    if told := _nothing(result, own):
        return told
    low, high = two(result["worst_folded"], result["best_folded"])
    values = f"{low} at phase {result['worst_phase']}, {high} at phase {result['best_phase']}"
    if other.anything:
        return _shared(own, other, result, control_name)
    alone = "" if control and control["n_complete"] else "; no control to compare with yet"
    if own.period and own.weak:
        if own.period == stride and not alone:
            return f"{every(stride)} the answer fades: {values}"
        return f"Period {own.period} found, {_geometry(own.period, stride)}: {values}{alone}"
    if own.period:
        across = (
            "one prompt cannot show a weak phase across prompts"
            if n == 1
            else f"no phase resolved as weak across {prompts(n)}"
        )
        which = f"{own.period}, {_geometry(own.period, stride)}"
        return f"Period {which} ({p_value(result['period']['p'])}); {across}{alone}"
    return (
        f"Phase {result['worst_phase']} is weak across {prompts(n)}, {low} against {high} at phase "
        f"{result['best_phase']}; no period resolved{alone}"
    )


def _nothing(result: dict, own: Seen) -> str:
    """The headline where nothing moves, or nothing that is resolved; "" where something does."""
    mean, chance, low = number(result["mean"]), result["chance"], result["mean_low"]
    if result["constant"]:
        return f"The answer does not move with the phase: {mean} at every residue"
    if own.anything:
        return ""
    if chance is not None and low is not None and low <= chance:
        return f"The answer is at chance, {mean}: a phase effect could not show"
    return f"No phase effect resolved with {prompts(result['n_complete'])}"


def _without_grid(result: dict, control_name: str) -> str:
    """The headline of a memory that compresses in no stride that these residues could fold."""
    own, other, control = seen(result), seen(result["control"]), result["control"]
    if told := _nothing(result, own):
        return told
    if own.period:
        claim = f"Period {own.period} found ({p_value(result['period']['p'])})"
    else:
        claim = f"Residue {result['worst_residue']} is weak across {prompts(result['n_complete'])}"
    if other.anything:
        what = f"period {other.period}" if other.period else "a weak residue"
        gaps = f"gap {number(control['gap'])} against {number(result['gap'])}"
        return f"{claim}, but {control_name} has {what} too, {gaps}"
    alone = "" if control and control["n_complete"] else "; no control to compare with yet"
    return f"{claim}; no stride is configured that {result['modulus']} residues fold{alone}"


def _shared(own: Seen, other: Seen, result: dict, control_name: str) -> str:
    """The control moves too: what is shared may not be laid at the memory's door."""
    gaps = f"gap {number(result['control']['folded_gap'])} against {number(result['folded_gap'])}"
    if own.period and other.period == own.period:
        return f"Period {own.period} shows in {control_name} too, {gaps}: {ARTEFACT}"
    claim = f"Period {own.period} found" if own.period else f"Phase {result['worst_phase']} is weak"
    if other.period:
        return f"{claim}, but {control_name} has period {other.period} of its own, {gaps}"
    return f"{claim}, but {control_name} has a weak phase too, {gaps}"


def _uncompressed(result: dict) -> str:
    """The headline of the full cache by itself: whatever shows is no memory's doing."""
    n, own = result["n_complete"], seen(result)
    if result["constant"]:
        return (
            f"Without compression the answer is the same at every residue: {number(result['mean'])}"
        )
    if own.period:
        return (
            f"Period {own.period} without any compression "
            f"({p_value(result['period']['p'])}): {ARTEFACT}"
        )
    if own.weak:
        return (
            f"Residue {result['worst_residue']} is weak without any compression, "
            f"across {prompts(n)}: {ARTEFACT}"
        )
    mean = number(result["mean"])
    return f"No phase effect resolved without compression, with {prompts(n)}: mean {mean}"


def _geometry(period: int, stride: int) -> str:
    """How the detected period stands to the configured one."""
    if period == stride:
        return "the configured stride"
    if stride % period == 0:
        return f"a divisor of the configured stride {stride}"
    if period % stride == 0:
        return f"a multiple of the configured stride {stride}"
    return f"not the configured stride {stride}"


def _own_line(result: dict) -> str:
    """Period beside the configured stride, gap beside chance."""
    period, stride = result["period"], result["period"]["configured"]
    if period["p"] is None:
        found = "No period can be tested"
    elif period["detected"] is None:
        found = f"No period detected ({p_value(period['p'])})" + (
            f", configured {stride}" if stride else ""
        )
    elif stride:
        which = _geometry(period["detected"], stride)
        found = f"The detected period of {period['detected']} is {which} ({p_value(period['p'])})"
    else:
        found = f"The detected period is {period['detected']} ({p_value(period['p'])})"
    gap = result["folded_gap"] if stride else result["gap"]
    if result["n_complete"] == 1:
        return f"{found}; gap {number(gap)} in one prompt."
    chance = f"{number(result['gap_null'])} by chance ({p_value(result['gap_p'])})"
    return f"{found}; gap {number(gap)}, {chance}."


def _control_line(result: dict, name: str) -> str:
    """The control with its gap and p, and the level of a guess."""
    guess = _guess(result)
    control = result["control"]
    if not result["period"]["configured"] and not control:
        return f"{guess[:1].upper()}{guess[1:]}." if guess else ""
    if not control or not control["n_complete"]:
        line = "No control to compare with yet"
    elif control["constant"]:
        line = f"On the same copies {name} is constant, gap .00 (p = 1.00)"
        if result["protocol"] == "grid_origin":
            line += (
                ", as it must be when only the grid's origin moves: whatever moves is the memory"
            )
    else:
        line = f"On the same copies {name} {_control_words(control)}"
    return f"{line}; {guess}." if guess else f"{line}."


def _guess(result: dict) -> str:
    """The level of a guess, where two digits show it."""
    chance = result["chance"]
    return "" if chance is None or chance < 0.005 else f"a guess scores {number(chance)}"


def _control_words(control: dict) -> str:
    own = seen(control)
    gap = control["folded_gap"] if control["folded_gap"] is not None else control["gap"]
    told = f"gap {number(gap)} ({p_value(control['gap_p'])})"
    if control["n_complete"] == 1:
        told = f"gap {number(gap)} in one prompt"
    if own.period:
        p = p_value(control["period"]["p"])
        return f"has {told} and period {own.period} ({p}), {ARTEFACT}"
    if own.weak:
        return f"has a weak phase too, {told}"
    return (
        f"is flat, {told}"
        if gap is not None and gap <= FLAT
        else f"shows no resolved effect, {told}"
    )


def _pair_finding(result: dict) -> str:
    """Two documents: the paired difference, and whether the control shares it."""
    pair = result["pair"]
    if not pair:
        return "No pair of documents has been answered yet"
    first, second = two(pair["first"], pair["second"])
    if pair["n"] == 1:
        both = f"{first} in the first document, {second} in the second"
        return f"One pair: {both}; one pair resolves nothing"
    resolved = _resolved(pair)
    if not resolved:
        return f"No difference between the two documents resolved with {pair['n']} pairs"
    verb = "lowers" if pair["difference"] < 0 else "raises"
    claim = f"One token {verb} the answer from {first} to {second} across {pair['n']} pairs"
    beyond = pair["beyond_control"]
    if beyond and _resolved(beyond) and beyond["difference"] * pair["difference"] > 0:
        return claim
    return (
        f"{claim}, not resolved from the control's own change"
        if beyond
        else f"{claim}; no control yet"
    )


def _resolved(test: dict) -> bool:
    """The interval leaves zero out and the sign-flip test agrees."""
    low, high = test["low"], test["high"]
    return test["p"] <= LEVEL and low is not None and (low > 0 or high < 0)


def _pair_doubt(result: dict, name: str) -> list[str]:
    pair, control = result["pair"], result["control"]
    told = ["A pair gives a difference and no period."]
    if pair and pair["n"] > 1:
        span = f"95 % from {number(pair['low'])} to {number(pair['high'])}, {p_value(pair['p'])}"
        told = [f"Difference {number(pair['difference'])} ({span}); a pair gives no period."]
    if pair and control:
        moved = number(control["residues"][1]["value"] - control["residues"][0]["value"])
        line = f"On the same documents {name} moves by {moved}"
        beyond = pair["beyond_control"]
        if beyond and beyond["n"] > 1:
            extra = number(beyond["difference"])
            line += f"; the difference beyond it is {extra} ({p_value(beyond['p'])})"
        told.append(line + ".")
    if guess := _guess(result):
        told.append(f"{guess[:1].upper()}{guess[1:]}.")
    return told
