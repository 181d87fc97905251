"""The page's headline and line of doubt, by fixed rules from the members shown.

A sentence never says more than the members' own tests and intervals allow; a test holds each rule.
Pure: the service's dicts in, sentences out.
"""

from __future__ import annotations

from app.benchmark import family
from app.benchmark.family import follows, full, measured, numbers, period, stride
from app.words import number, sentence

LEARNED = 0.9  # training accuracy below which a control is a poor one
LEVEL = 0.05
NOTHING_YET = "Nothing is measured here yet"


def two(value: float | None) -> str:
    return number(value, 2)


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def separate(upper: dict, lower: dict) -> bool:
    """Whether two rows with intervals do not overlap, `upper` above."""
    high, low = lower.get("high"), upper.get("low")
    return high is not None and low is not None and low > high


def moves(member: dict, done: list[dict]) -> bool:
    """Whether a full cache has a period, corrected for as many tests as there are full caches."""
    if not full(member) or period(member) is None:
        return False
    p = (numbers(member).get("period") or {}).get("p") or 0.0
    return p * sum(map(full, done)) <= LEVEL


def headline(name: str, members: list[dict]) -> str:
    """One sentence about the section's members."""
    done = [m for m in members if measured(m)]
    own = [m for m in done if stride(m)]
    if not own:
        return NOTHING_YET
    if any(moves(m, done) for m in done):
        return "A period shows in the full cache too: nothing is to be read into the memories"
    rule = {
        family.GRID: _grid,
        family.GATE: _gate,
        family.ROPE: _rope,
        family.HEADS: _heads,
        family.PAYLOAD: _payload,
        family.REPAIRS: _repairs,
        family.SEEDS: _seeds,
    }.get(name, _count)
    return rule(own)


def _grid(own: list[dict]) -> str:
    """The strong claim needs every member to follow, and both contrasts to be there."""
    tail = _pooled(own)
    if all(follows(m) for m in own) and stride_not_window(own):
        return f"The period follows the stride, not the window{tail}"
    return _count(own) + tail


def _pooled(own: list[dict]) -> str:
    """`, over M = 24, 32 and 40 records`, where members of several M are told of."""
    found = sorted({m["records"] for m in own})
    told = f", over M = {listed([str(m) for m in found])} records"
    return told if len(found) > 1 else ""


def stride_not_window(own: list[dict]) -> bool:
    """Whether members with W ≠ S follow their stride, at a fixed stride and at a fixed window,
    the contrasts between members of as many records a place.
    """
    apart = [m for m in own if m["window"] != m["stride"]]
    pairs = [(a, b) for a in own for b in own if _dense(a) == _dense(b)]
    fixed_stride = any(a["stride"] == b["stride"] and a["window"] != b["window"] for a, b in pairs)
    fixed_window = any(a["window"] == b["window"] and a["stride"] != b["stride"] for a, b in pairs)
    return bool(apart) and all(follows(m) for m in apart) and fixed_stride and fixed_window


def _dense(member: dict) -> float:
    return member["records"] / member["places"]


def _count(own: list[dict], noun: str = "memories", one: str = "memory") -> str:
    k, n = sum(map(follows, own)), len(own)
    if n == 1:
        member = own[0]
        if k:
            return f"{member['label']} repeats with its stride of {member['stride']}"
        found = period(member)
        return f"{member['label']} shows no period" + (
            "" if found is None else f" of its stride; {found} was found"
        )
    if not k:
        if any(period(m) is not None for m in own):
            return f"None of {n} {noun} repeats with its stride"
        return f"No period is resolved in {n} {noun}"
    if k == n:
        return f"All {n} {noun} repeat with their stride"
    verb = f"{noun} repeat with their stride" if k > 1 else f"{noun} repeats with its stride"
    return f"{k} of {n} {verb}"


def _gate(own: list[dict]) -> str:
    learned = [m for m in own if m.get("gate") != "uniform"]
    uniform = [m for m in own if m.get("gate") == "uniform"]
    if uniform and learned and all(map(follows, own)):
        return "The period is there without a learned gate too"
    return _count(own, "gates")


def _rope(own: list[dict]) -> str:
    bare = [m for m in own if not m.get("rope")]
    with_rope = [m for m in own if m.get("rope")]
    if bare and with_rope and all(map(follows, bare + with_rope)):
        return "The period stays without RoPE"
    if bare and with_rope and all(map(follows, with_rope)):
        if all(period(m) is None for m in bare):
            return "With RoPE the memory repeats; without it no period is resolved"
        return "Without RoPE the period is another"
    return _count(own)


def _heads(own: list[dict]) -> str:
    """PWS: a small loss of the mean may hide a large one of the worst residue."""
    if len(own) < 2:
        return _count(own)
    least = min(own, key=lambda m: m.get("kv_heads") or 0)
    most = max(own, key=lambda m: (m.get("kv_heads") or 0, m["records"] == least["records"]))
    few, many = numbers(least), numbers(most)
    rises = _above(many.get("mean_low"), few.get("mean_high"))
    tail = f", and the period stays{_pooled(own)}" if all(map(follows, own)) else ""
    if rises:
        return (
            f"{most['kv_heads']} KV heads instead of {least['kv_heads']} lift the mean from "
            f"{two(few['mean'])} to {two(many['mean'])}{tail}"
        )
    return f"More KV heads do not lift the mean beyond its interval{tail}"


def _above(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and low > high


def _payload(own: list[dict]) -> str:
    if len(own) > 1 and all(map(follows, own)):
        return f"The period stays with all {len(own)} payloads"
    return _count(own, "payloads", "payload")


def _repairs(own: list[dict]) -> str:
    """What the repair section says in full, in one line: how many lift the worst residue."""
    repaired = [m for m in own if m.get("group") == "repair"]
    pairs = [(m, family.twin(own, m)) for m in repaired]
    pairs = [(m, t) for m, t in pairs if t]
    if not pairs:
        return "No repair has its unrepaired twin beside it yet"
    lifted = [
        m for m, t in pairs if _above(numbers(m).get("worst_low"), numbers(t).get("worst_high"))
    ]
    seeds = {m.get("seed") or 0 for m in repaired}
    tail = (f" (seed {min(seeds)})" if len(seeds) == 1 else "") + _pooled([m for m, _ in pairs])
    if not lifted:
        return f"None of {len(pairs)} repairs lifts the worst residue beyond its interval{tail}"
    if len(lifted) < len(pairs):
        verb = "lift" if len(lifted) > 1 else "lifts"
        return f"{len(lifted)} of {len(pairs)} repairs {verb} the worst residue{tail}"
    if len(pairs) > 1:
        return f"All {len(pairs)} repairs lift the worst residue{tail}"
    return f"{lifted[0]['label']} lifts the worst residue{tail}"


def _seeds(own: list[dict]) -> str:
    bases: dict[str, list[dict]] = {}
    for member in own:
        bases.setdefault(member["base"], []).append(member)
    several = [found for found in bases.values() if len(found) > 1]
    if not several:
        return "No variant has two seeds yet"
    means = [[numbers(m)["mean"] for m in found] for found in several]
    spread = max(max(found) - min(found) for found in means)
    told = f"the mean moves by up to {two(spread)} between seeds"
    seeds = [m for found in several for m in found]
    if all(map(follows, seeds)):
        return f"Every seed repeats with its stride{_pooled(seeds)}; {told}"
    k, n = sum(map(follows, seeds)), len(seeds)
    return f"{k} of {n} trained seeds repeat with their stride{_pooled(seeds)}; {told}"


# ---- doubt


def doubt(members: list[dict]) -> str:
    """What the headline is to be read against: control, chance, and what is not sound."""
    told = [
        _control_line([m for m in members if full(m) and measured(m)]),
        _unresolved([m for m in members if stride(m) and measured(m)]),
        _untrained([m for m in members if full(m)]),
        _at_chance([m for m in members if measured(m)]),
        _stale([m for m in members if m.get("stale") and measured(m)]),
        _missing(members),
    ]
    return " ".join(filter(None, told))


def _control_line(controls: list[dict]) -> str:
    if not controls:
        return "No full cache is measured beside them yet, so nothing tells memory from task."
    flat = all(period(m) is None and (numbers(m).get("gap_p") or 0) > LEVEL for m in controls)
    means = sorted(numbers(m)["mean"] for m in controls)
    mean = number(means[0])
    if number(means[-1]) != mean:
        mean += f" to {number(means[-1])}"
    widest = max(numbers(m)["gap"] for m in controls)
    chance = numbers(controls[0]).get("chance")
    noun = "The full cache is" if len(controls) == 1 else f"The {len(controls)} full caches are"
    told = f"{noun} {'flat ' if flat else ''}at {mean} (gap "
    told += ("" if len(controls) == 1 else "up to ") + number(widest)
    null = [numbers(m)["gap_null"] for m in controls if numbers(m).get("gap_null") is not None]
    told += f", {two(max(null))} by chance)" if null else ")"
    told += f"; a guess gives {number(chance)}." if chance is not None else "."
    for member in controls:
        if period(member) is not None and not moves(member, controls):
            told += f" {member['label']} has a period of {period(member)}, which is none once "
            told += f"corrected for {len(controls)} tests."
    return told


def _unresolved(own: list[dict]) -> str:
    """Members without a period, and members that found another one than their stride."""
    none = [m for m in own if period(m) is None]
    other = [m for m in own if period(m) is not None and not follows(m)]
    told = []
    if none:
        names = listed([m["label"] for m in none[:3]]) if len(none) < 4 else f"{len(none)} of them"
        told.append(f"No period is resolved in {names}.")
    for member in other[:2]:
        told.append(
            f"{member['label']} repeats every {period(member)}, not every {stride(member)}."
        )
    return " ".join(told)


def _untrained(controls: list[dict]) -> str:
    low = [
        m
        for m in controls
        if m.get("training_accuracy") is not None and m["training_accuracy"] < LEARNED
    ]
    if not low:
        return ""
    names = listed([f"{m['label']} ({two(m['training_accuracy'])})" for m in low])
    return f"Controls below .90 in training, beside which a gap says little: {names}."


def _at_chance(done: list[dict]) -> str:
    """A flat curve at chance has gap 0 and looks healthy."""
    lost = [
        m
        for m in done
        if numbers(m).get("chance") is not None
        and numbers(m).get("mean_low") is not None
        and numbers(m)["mean_low"] <= numbers(m)["chance"]
    ]
    if not lost:
        return ""
    verb = "is" if len(lost) == 1 else "are"
    return sentence(f"{listed([m['label'] for m in lost])} {verb} at chance: its gap says nothing.")


def _stale(old: list[dict]) -> str:
    if not old:
        return ""
    n = len(old)
    return f"{n} result{'s are' if n > 1 else ' is'} from an older code version."


def _missing(members: list[dict]) -> str:
    left = sum(1 for m in members if not measured(m))
    if not left:
        return ""
    return f"{left} of {len(members)} not measured yet."


def context(members: list[dict]) -> str:
    """`Controlled retrieval · 2 layers, 125k parameters · 24 residues, 192 prompts each`."""
    sizes = sorted({round((m.get("parameters") or 0) / 1000) for m in members} - {0})
    done = [numbers(m) for m in members if measured(m)]
    parts = ["Controlled retrieval"]
    if sizes:
        span = f"{sizes[0]}k" if len(sizes) == 1 else f"{sizes[0]}k to {sizes[-1]}k"
        parts.append(f"2 layers, {span} parameters")
    if done:
        moduli = sorted({int(d["modulus"]) for d in done if d.get("modulus")})
        counts = sorted({int(d["n_samples"]) for d in done if d.get("n_samples")})
        told = f"{moduli[0]} residues" if len(moduli) == 1 else "residues as noted"
        if len(counts) == 1:
            told += f", {counts[0]} prompts each"
        elif counts:
            told += f", {counts[0]} to {counts[-1]} prompts each"
        parts.append(told)
    return " · ".join(parts)
