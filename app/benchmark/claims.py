"""Sentences of the sections below the panels, by fixed rules from the numbers; a test holds each.

Pure: the service's dicts in, sentences out.
"""

from __future__ import annotations

from app.benchmark import family
from app.benchmark.family import follows, measured, numbers, period
from app.benchmark.findings import LEVEL, listed, separate, two
from app.words import number, sentence

NOT_YET = "not measured yet"
SOURCE_MEAN = 0.5  # the toy study's constant mean


# ---- one memory opened


def uneven(folded: list[dict], stride: int) -> bool:
    """Whether offsets inside the window differ beyond their 95 % intervals."""
    inner = [row for row in folded if row["phase"] < stride - 1 and row["value"] is not None]
    if len(inner) < 2:
        return False
    best, worst = max(inner, key=lambda r: r["value"]), min(inner, key=lambda r: r["value"])
    return separate(best, worst)


def hole(folded: list[dict], stride: int) -> bool:
    """Whether the boundary lies under every offset inside the window, beyond the intervals."""
    last = next((row for row in folded if row["phase"] == stride - 1), None)
    inner = [row for row in folded if row["phase"] < stride - 1]
    return bool(last and inner) and all(separate(row, last) for row in inner)


def opened(label: str, report: dict, stride: int | None) -> str:
    """The heading of the opened memory."""
    if report.get("within_gap") is not None and stride:
        folded = report["folded"]
        deep, rest = hole(folded, stride), uneven(folded, stride)
        if deep:
            tail = "the rest is uneven too" if rest else "the rest is even"
            return f"{label}: the last offset is the hole, {tail}"
        if rest:
            worst = min(folded, key=lambda r: r["value"])["phase"]
            if worst < stride - 1:
                return f"{label}: the weakest offset is {worst}, inside the window"
    return f"{label}: {lowered(report.get('finding') or 'no finding yet')}"


def lowered(text: str) -> str:
    """The first letter small, unless the word is a name or a sign."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def opened_line(report: dict, stride: int | None) -> str:
    """What stands under the heading: how W = S splits a pair, else the service's own doubt."""
    if report.get("within_gap") is not None and stride:
        return (
            f"The key of the pair sits at the offset shown, its value one token later. At offset "
            f"{stride - 1} the two fall into different windows; {two(report['within_gap'])} of the "
            f"gap remains inside the window."
        )
    return report.get("doubt") or ""


def depth(told: dict) -> str:
    """Rank correlations of accuracy by residue with depth and density."""
    p = {name: (told.get(name) or {}).get("p") for name in ("distance", "pairs")}
    p = {name: value for name, value in p.items() if value is not None}
    if not p:
        return "Depth and density: no rank correlation is defined"
    words = {"distance": "distance to the query", "pairs": "pairs in the same window"}
    low = [words[name] for name, value in p.items() if value < LEVEL]
    if not low:
        return "Depth and density do not explain it"
    other = [words[name] for name, value in p.items() if value >= LEVEL]
    told_other = f"; {other[0]} does not" if other else ""
    verb = "goes" if len(low) == 1 else "go"
    first = listed(low)
    return f"{first[:1].upper()}{first[1:]} {verb} with accuracy{told_other}"


def depth_doubt(told: dict) -> str:
    """What the dots are, and why they may all stand at one distance."""
    words = "One dot a residue, mean of its prompts. "
    if (told.get("distance") or {}).get("p") is None:
        words += "All residues have their targets at the same mean distance, by design. "
    return words + "A phase effect that were one of depth or density would order the dots."


def combined(rows: list[dict]) -> str:
    """Whether reading the cache at two phases lifts the worst residue beyond its interval."""
    one = next((r for r in rows if r["rule"] == "one run"), None)
    two_runs = [r for r in rows if (r.get("forwards") or 1) > 1 and r.get("worst") is not None]
    if not one or one.get("worst") is None or not two_runs:
        return "Two phases, one answer: not computed"
    best = max(two_runs, key=lambda r: r["worst"])
    before, after = two(one["worst"]), two(best["worst"])
    low, high = best.get("worst_low"), one.get("worst_high")
    if low is not None and high is not None and low > high:
        return f"Two phases, one answer: the worst residue rises from {before} to {after}"
    if low is None or high is None:
        return f"Two phases, one answer: worst residue {before} with one run, {after} with two"
    return f"Two phases, one answer: the worst residue does not rise beyond its interval ({after})"


def jittered(row: dict) -> bool:
    """Whether a row's worst residue is no residue's: jitter gives each of them the mean."""
    return row["rule"] == "random jitter once"


def combined_note(rows: list[dict], report: dict) -> str:
    """What is right in the table, at which chance, and what is to be read of it."""
    chance = rows[0].get("chance")
    curve = [r["accuracy"] for r in report.get("residues") or () if r.get("accuracy") is not None]
    told = (
        "Each residue is read together with the one half a stride on. Right is a forced choice "
        "between the answer and the rivals that are followed, in all four rules alike"
    )
    told += f": a guess is right {number(chance)} of the time." if chance else "."
    if curve:
        told += (
            f" Over the whole vocabulary one run has {number(sum(curve) / len(curve))} on average "
            f"and {number(min(curve))} at its worst residue: these numbers stand above that and "
            "are compared with each other only."
        )
    return told + (
        " Random jitter gives every residue the mean, so it has no worst one; what a question "
        "scores at its worst stays as in one run. Cost is of one question."
    )


# ---- explanations that fail


def split_members(members: list[dict]) -> list[dict]:
    """Measured memories with W = S on one grid, one a variant, no repair and no coverage study."""
    return [
        m
        for m in family.heads_of(members)
        if measured(m)
        and m.get("group") not in ("repair", "coverage")
        and numbers(m).get("within_gap") is not None
    ]


def boundary_only(members: list[dict]) -> str:
    own = split_members(members)
    if not own:
        return f"The boundary: {NOT_YET}"
    k, n = sum(uneven(numbers(m)["folded"], m["stride"]) for m in own), len(own)
    if not k:
        return "Inside the window no gap is resolved: the boundary may explain all of it"
    if k == n and n > 1:
        return f"Not the boundary alone: a gap remains inside the window in all {n} memories"
    if n == 1:
        return f"Not the boundary alone: a gap remains inside the window of {own[0]['label']}"
    return f"Not the boundary alone: a gap remains inside the window in {k} of {n} memories"


def rope(bare: dict | None, with_rope: dict | None) -> str:
    if not (bare and with_rope and measured(bare) and measured(with_rope)):
        return f"RoPE: {NOT_YET}"
    if follows(bare) and follows(with_rope):
        return f"Not RoPE: without it the period of {period(bare)} is there too"
    if period(bare) is None and follows(with_rope):
        return "Without RoPE no period is resolved: it may be part of the cause"
    return "RoPE and no RoPE differ, and neither reading is settled"


def gates(uniform: dict | None, learned: list[dict]) -> str:
    learned = [m for m in learned if measured(m)]
    if not (uniform and measured(uniform) and learned):
        return f"Learned gates: {NOT_YET}"
    if follows(uniform) and all(map(follows, learned)):
        return f"Not the learned gate: a uniform mean has the period of {period(uniform)} too"
    if period(uniform) is None and all(map(follows, learned)):
        return "With a uniform mean no period is resolved: learned gates may be part of the cause"
    return "Uniform and learned gates differ, and neither reading is settled"


def width(at_window: list[dict], at_stride: dict[int, list[dict]]) -> str:
    """`at_window`: one W, several S.  `at_stride`: by S those of several W.

    Width is out where S moves the period at one W, W leaves it at every S, and no period is found
    that is not S.
    """
    if len(at_window) < 2 or not at_stride:
        return f"The width: {NOT_YET}"
    moved = [m for m in at_window if follows(m)]
    stays = [s for s, own in at_stride.items() if all(map(follows, own))]
    none = [s for s, own in at_stride.items() if all(period(m) is None for m in own)]
    every = [*at_window, *(m for own in at_stride.values() for m in own)]
    astray = [m for m in every if period(m) is not None and not follows(m)]
    wide = at_window[0]["window"]
    if len(moved) > 1 and stays and len(stays) + len(none) == len(at_stride) and not astray:
        strides = listed([str(m["stride"]) for m in moved])
        told = f"at W = {wide} the period is S ({strides})"
        told += f", and at S = {listed(list(map(str, stays)))} no W changes it"
        quiet = [f"S = {s}" for s in none]
        quiet += [
            family.geometry(m) for m in at_window if not follows(m) and m["stride"] not in none
        ]
        return f"Not the width: {told}" + (
            f"; at {listed(quiet)} none is resolved" if quiet else ""
        )
    own = [m for found in at_stride.values() for m in found]
    return (
        f"The width is not settled: {len(moved)} of {len(at_window)} repeat with S at W = {wide}, "
        f"and {sum(map(follows, own))} of {len(own)} where only W differs "
        f"(S = {listed(list(map(str, at_stride)))})"
    )


# ---- training coverage


def coverage_roles(members: list[dict]) -> dict[str, dict]:
    """zero, all, under: phase 0 only, all phases, and all phases with fewer steps."""
    own = [m for m in members if m.get("group") == "coverage"]
    every = sorted((m for m in own if m.get("phases") == "all"), key=lambda m: m.get("steps") or 0)
    roles = {"zero": next((m for m in own if m.get("phases") == "zero"), None)}
    roles["all"] = every[-1] if every else None
    roles["under"] = every[0] if len(every) > 1 else None
    return {name: m for name, m in roles.items() if m}


def spread(report: dict) -> float | None:
    """The gap over phases, or over residues where nothing is folded."""
    return report.get("folded_gap") if report.get("folded_gap") is not None else report.get("gap")


def coverage(roles: dict[str, dict]) -> str:
    zero, every = roles.get("zero"), roles.get("all")
    if not (zero and every and measured(zero) and measured(every)):
        return "Training coverage: not measured yet"
    one, many = numbers(zero), numbers(every)
    apart = (
        one.get("excess_low") is not None
        and many.get("excess_high") is not None
        and one["excess_low"] > many["excess_high"]
        and (one.get("gap_p") is not None and one["gap_p"] <= LEVEL)
    )
    if not apart:
        told = f"{two(spread(one))} after phase 0 only, {two(spread(many))} after all phases"
        return f"Training coverage: a gap of {told}"
    if many.get("gap_p") is not None and many["gap_p"] > LEVEL:
        return "Training on one phase makes the gap; training on all closes it"
    return f"Training on one phase makes the gap; training on all leaves {two(spread(many))}"


def coverage_line(roles: dict[str, dict]) -> str:
    """How ours differs from the toy study, and why mean and chance stand beside each gap."""
    done = {name: numbers(m) for name, m in roles.items() if measured(m)}
    if not done:
        return "Train and run the three variants to compare them with the toy study."
    means = {name: r["mean"] for name, r in done.items() if r.get("mean") is not None}
    near = [name for name, mean in means.items() if abs(mean - SOURCE_MEAN) <= 0.05]
    listing = listed([number(mean) for mean in means.values()])
    if near:
        told = f"The toy study's constant mean of .500 stands beside means of {listing} here."
    else:
        told = f"The toy study's constant mean of .500 was not found here: means are {listing}."
    if "zero" in done:
        gap = two(spread(done["zero"]))
        told += f" Its gap after phase 0 only was .500; here it is {gap}."
    flat = [r for r in done.values() if _near_chance(r)]
    if flat:
        told += (
            f" At {number(flat[0]['mean'])}, near chance ({number(flat[0]['chance'])}), a gap of "
            f"{two(spread(flat[0]))} is no sign of health."
        )
    return (
        told
        + " A flat curve at chance has gap 0 and looks healthy, so mean and chance stand beside."
    )


def _near_chance(report: dict) -> bool:
    chance, mean = report.get("chance"), report.get("mean")
    return chance is not None and mean is not None and mean <= 4 * chance


# ---- repairs


def repair_rows(members: list[dict]) -> list[dict]:
    """One row a repaired member with its unrepaired twin of the same seed, both measured."""
    out = []
    for member in members:
        if member.get("group") != "repair" or not measured(member):
            continue
        other = family.twin(members, member)
        if other is None or not measured(other):
            continue
        after, before = numbers(member), numbers(other)
        row = {"group": name_of(member), "seed": member.get("seed") or 0, "name": member["name"]}
        row |= {"same_seed": (other.get("seed") or 0) == row["seed"]}
        for name in ("mean", "worst"):
            for part in ("", "_low", "_high"):
                row[f"before_{name}{part}"] = before.get(name + part)
                row[f"after_{name}{part}"] = after.get(name + part)
        out.append(row)
    return out


def name_of(member: dict) -> str:
    """What a repaired member does differently."""
    if member.get("stagger"):
        return "staggered windows"
    if member.get("coverage"):
        return "even coverage (KL)"
    if (member.get("window") or 0) > (member.get("stride") or 0):
        return f"W\u00a0=\u00a0S\u00a0+\u00a0{member['window'] - member['stride']}"
    return member.get("label") or member["name"]


def repairs(rows: list[dict]) -> str:
    """Counts of seeds whose worst residue rises beyond both intervals, a repair."""
    if not rows:
        return "Repairs: not measured yet"
    every, some = [], []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group]
        up = sum(_rises(row, "worst") for row in own)
        if up == len(own):
            every.append(group)
        else:
            some.append(f"{group} in {up} of {len(own)}")
    rest = listed(some) if some else ""
    if not every:
        return f"No repair lifts the worst residue in every seed: {rest}"
    verb = "lifts" if len(every) == 1 else "lift"
    told = f"{sentence(listed(every))} {verb} the worst residue in every seed"
    return told + (f"; {rest}" if rest else "")


def repairs_line(rows: list[dict]) -> str:
    """Where a repair lowers the mean beyond the intervals, it is said."""
    lower = [r for r in rows if _falls(r, "mean")]
    told = "One pair a seed: hollow grey without the repair, solid with it; same data and entries."
    if lower:
        names = listed(sorted({r["group"] for r in lower}))
        told += f" The mean falls in {len(lower)} pair{'s' if len(lower) > 1 else ''} ({names})."
    if any(not r["same_seed"] for r in rows):
        told += " Where the unrepaired seed is missing, seed 0 stands in."
    return told


def _rises(row: dict, name: str) -> bool:
    low, high = row[f"after_{name}_low"], row[f"before_{name}_high"]
    return low is not None and high is not None and low > high


def _falls(row: dict, name: str) -> bool:
    high, low = row[f"after_{name}_high"], row[f"before_{name}_low"]
    return low is not None and high is not None and high < low
