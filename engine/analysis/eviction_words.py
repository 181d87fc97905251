"""A decode run's headline and doubt, by fixed rules from its tests (SCIENCE §6.3).

A method is called best only where its paired difference to every other method of that budget is
resolved: corrected p below .05 and an interval that leaves zero out.  A test holds each rule.
Knows the report's dict; computes no statistic.
"""

from __future__ import annotations

from engine.analysis.eviction_arms import beacon_and_recent, role, split_of, unlike
from engine.analysis.eviction_pairs import BETTER, MEASURES, POOLED
from engine.analysis.words import number, prompts, two

APART = 1.03  # resident tokens at one budget, beyond which they are told
SMALL = 1e9  # parameters below which a model is called small
NAMES = 3  # methods that a sentence names
NAMED = {"nll": "NLL", "recall": "recall"}
BETTER_IS = {"nll": "lower NLL is better", "recall": "higher recall is better"}
WORDS = {"n_beacon": "beacons", "n_recent": "recent", "obs_window": "queries"}  # of options
RECENT = "plain max over recent queries"


def say(result: dict, note: str = "") -> tuple[str, str]:
    """(finding, doubt) of a report.  The finding has no full stop: it is a headline."""
    if not result["n_samples"]:
        return "Nothing has been scored yet", note
    budget = _smallest(result)
    if budget is None:
        return _only_full(result), _join(_doubt(result), note)
    if _held_all(result, budget):
        most = max(m["length"] for m in result["methods"] if m["compared_at"] == budget)
        line = f"Nothing was evicted: the smallest budget, {tokens(budget)}, holds all {most:g}"
        return line, _join(_doubt(result), note)
    measure = _measure(result, budget)
    if result["mode"] == "free" and all(m["recall"] is None for m in result["methods"]):
        line = "Each method wrote its own text and no question was asked: nothing can be compared"
        return line, _join(_doubt(result), note)
    finding = _lead(result, budget, measure)
    clause = _beacons(result, budget, measure)
    beacons = [f"{clause[:1].upper()}{clause[1:]}."] if clause else []
    other = _other(result, budget, measure)
    return finding, _join([*beacons, *other, *_doubt(result)], note)


def _join(doubt: list[str], note: str) -> str:
    return " ".join(filter(None, [*doubt, note.strip()]))


# ---- the headline


def _smallest(result: dict) -> float | None:
    """The smallest budget with methods to compare, else with one that was scored."""
    compared = [row["budget"] for row in result["pairs"]]
    scored = {m["compared_at"] for m in result["methods"] if m["n"]} - {None}
    return min(compared or scored, default=None)


def _held_all(result: dict, budget: float) -> bool:
    own = [m for m in result["methods"] if m["compared_at"] == budget and m["n"]]
    return bool(own) and all(m["held_all"] for m in own)


def _measure(result: dict, budget: float) -> str:
    """Recall where questions were asked and some method answers them differently, else NLL."""
    own = [m for m in result["methods"] if m["compared_at"] == budget]
    tests = _tests(result, budget, "recall") or [
        test for m in own if (test := m["against_full"]["recall"])
    ]
    moves = any(test["diff"] != 0 or test["p"] < 1 for test in tests)
    scored = result["mode"] == "forced" and any(m["nll"] is not None for m in own)
    return "nll" if scored and not moves else "recall"


def _tests(result: dict, budget: float, measure: str) -> list[dict]:
    return [r for r in result["pairs"] if r["budget"] == budget and r["measure"] == measure]


def _from(row: dict, arm: int) -> dict:
    """A pair's test seen from one of its arms: `gain` is positive where that arm is better."""
    sign = 1 if row["arm_a"] == arm else -1
    low, high = row["low"], row["high"]
    turned = (low, high) if sign > 0 else (_negative(high), _negative(low))
    other = "b" if sign > 0 else "a"
    own = "a" if sign > 0 else "b"
    return {
        "diff": sign * row["diff"],
        "low": turned[0],
        "high": turned[1],
        "gain": sign * row["diff"] * BETTER[row["measure"]],
        "resolved": row["resolved"],
        "apart": low is not None and not low <= 0 <= high,  # by the interval, which is uncorrected
        "p": row["p_corrected"],
        "own": row[f"value_{own}"],
        "other": row[f"value_{other}"],
        "rival": called(row[other]),
        "arm": row[f"arm_{other}"],
        "n": row["n"],
    }


def _negative(x: float | None) -> float | None:
    return None if x is None else -x


def _lead(result: dict, budget: float, measure: str) -> str:
    """Which method is best at a budget, as far as its tests against all others go."""
    tests = _tests(result, budget, measure)
    if not tests:
        return _alone(result, budget, measure)
    there = {row[k] for row in tests for k in ("arm_a", "arm_b")}
    ranked = sorted(
        (m for m in result["methods"] if m["arm"] in there),
        key=lambda m: (-BETTER[measure] * m[measure], m["arm"]),
    )
    best, following = ranked[0], ranked[1]
    seen = [_from(r, best["arm"]) for r in tests if best["arm"] in (r["arm_a"], r["arm_b"])]
    n = min(one["n"] for one in seen)
    near = [one["rival"] for one in seen if not (one["resolved"] and one["gain"] > 0)]
    name, name_of, at = called(best["label"]), NAMED[measure], tokens(budget)
    if len(near) == len(seen):
        return f"No method is separated from {name} by {name_of} at {at} with {prompts(n)}"
    if near:
        return (
            f"At {at} {name} has the best {name_of}, {number(best[measure])}, but is not separated "
            f"from {names(near)} with {prompts(n)}"
        )
    second = next((o for o in seen if o["arm"] == following["arm"]), seen[0])
    own, other = two(second["own"], second["other"])
    waiting = any(m["compared_at"] == budget and m["arm"] not in there for m in result["methods"])
    so_far = ", of the methods scored so far" if waiting else ""
    what = "keeps most" if measure == "recall" else "predicts best"
    return (
        f"At {at} {name} {what}: {name_of} {own} against {other} for the next, {second['rival']}, "
        f"with {prompts(n)}{so_far}"
    )


def _alone(result: dict, budget: float, measure: str) -> str:
    """One method at the smallest budget: what it loses to the full cache."""
    own = [m for m in result["methods"] if m["compared_at"] == budget and m["n"]]
    at = tokens(budget)
    told = next((m for m in own if m["against_full"][measure]), None)
    if told is None:
        return f"At {at} {called(own[0]['label'])} has nothing to be compared with yet"
    test, name_of = told["against_full"][measure], NAMED[measure]
    if not test["resolved"]:
        return (
            f"No difference between {called(told['label'])} at {at} and the full cache is "
            f"resolved by {name_of} with {prompts(test['n'])}"
        )
    own_value, full = two(test["value_a"], test["value_b"])
    return f"At {at} {called(told['label'])} has {name_of} {own_value}, the full cache {full}"


def _beacons(result: dict, budget: float, measure: str) -> str:
    """Do beacon queries beat plain max over recent ones?  Told wherever both are there."""
    tests = _beacon_tests(result, budget, measure)
    if not tests:
        return ""
    where, test = tests[0]
    here = "here" if where == budget else f"at {tokens(where)}"
    told = f"{RECENT} {here} ({NAMED[measure]} difference {_span(test)}"
    if test["resolved"]:
        return f"{test['who']} {'beat' if test['gain'] > 0 else 'fall behind'} {told})"
    if test["apart"]:
        told += f"; {BETTER_IS[measure]}, but {_corrected(result, test, measure)}"
    return f"{test['who']} do not beat {told})"


def _corrected(result: dict, test: dict, measure: str) -> str:
    """Why an interval without zero is no difference: `p is .08 after correction for 84 tests`."""
    tests = sum(row["measure"] == measure for row in result["pairs"])
    after = f" after correction for {tests} comparisons" if tests > 1 else ""
    return f"p is {number(test['p'], 2 if test['p'] >= 0.01 else 3)}{after}"


def _beacon_tests(result: dict, budget: float, measure: str) -> list[tuple[float, dict]]:
    """(budget, test of beacons less plain max) of each budget that has both, `budget` first."""
    arms = [m | {"index": m["arm"], "kind": m["method"]} for m in result["methods"]]
    found = []
    for where in sorted({r["budget"] for r in result["pairs"]}, key=lambda b: (b != budget, b)):
        pair = beacon_and_recent(arms, where)
        if pair and (test := _test_of(result, where, measure, pair)):
            here = [arm for arm in arms if arm["budget"] == where and role(arm) == "beacon"]
            who = f"beacon queries ({split_of(pair[0])})" if len(here) > 1 else "beacon queries"
            found.append((where, test | {"unlike": unlike(*pair), "who": who}))
    return found


def _test_of(result: dict, budget: float, measure: str, pair: tuple[dict, dict]) -> dict | None:
    wanted = {pair[0]["arm"], pair[1]["arm"]}
    for row in _tests(result, budget, measure):
        if {row["arm_a"], row["arm_b"]} == wanted:
            return _from(row, pair[0]["arm"])
    return None


def _only_full(result: dict) -> str:
    full = next(m for m in result["methods"] if m["n"])
    values = [f"{NAMED[k]} {number(full[k])}" for k in MEASURES if full[k] is not None]
    return f"Only the full cache has been scored: {', '.join(values)}"


# ---- the doubt


def _other(result: dict, budget: float, measure: str) -> list[str]:
    """The same sentences by the measure that the headline does not speak of, and other budgets."""
    told = []
    other = next(m for m in MEASURES if m != measure)
    if _tests(result, budget, other):
        line = _lead(result, budget, other)
        if clause := _beacons(result, budget, other):
            line += f"; {clause}"
        told.append(f"{line}.")
    found = _beacon_tests(result, budget, measure)
    if found and (differ := found[0][1]["unlike"]):
        told.append(f"Beacons and plain max do not differ in queries alone: {names(differ)} too.")
    elsewhere = [
        f"{_standing(test)} at {tokens(where)} ({_span(test)})" for where, test in found[1:]
    ]
    if elsewhere:
        told.append(f"Beacon queries elsewhere, by {NAMED[measure]}: {', '.join(elsewhere)}.")
    return told


def _standing(test: dict) -> str:
    if test["resolved"]:
        return "ahead" if test["gain"] > 0 else "behind"
    return "not separated, p corrected," if test["apart"] else "not separated"


def _doubt(result: dict) -> list[str]:
    """What the numbers are of: prompts, model, control, corrections, budgets."""
    methods, tests = result["methods"], result["pairs"]
    small = "small " if (result["parameters"] or SMALL) < SMALL else ""
    model = f" and one {small}model, {result['model']}" if result["model"] else ""
    told = [f"Scores are of {prompts(result['n_samples'])}{model}."]
    full = next((m for m in methods if m["budget"] is None and m["n"]), None)
    if full and any(m["n"] for m in methods if m["budget"] is not None):
        values = [f"{NAMED[k]} {number(full[k])}" for k in MEASURES if full[k] is not None]
        told.append(f"The full cache has {' and '.join(values)}.")
    counts = {m: sum(r["measure"] == m for r in tests) for m in MEASURES}
    most = max(counts.values())
    if most > 1:
        told.append(
            f"p is corrected for up to {most} comparisons by one measure (Holm); intervals are not."
        )
    told += _budgets(result)
    if result["mode"] == "free":
        told.append("Each method wrote its own text, so NLL is of its own words and not compared.")
    arms = [{"kind": m["method"], "options": m["options"]} for m in methods if m["n"]]
    roles = {role(arm) for arm in arms}
    if "beacon" in roles and "recent" not in roles:
        told.append(f"No method here votes by {RECENT}, so what beacons add cannot be told.")
    if result["published"]:
        told.append("Published figures are of other models and tasks.")
    return told


def _budgets(result: dict) -> list[str]:
    """What a budget is, and how far peaks or means stand apart at the smallest one compared."""
    budgets = sorted({r["budget"] for r in result["pairs"]})
    if not budgets:
        return []
    own = [m for m in result["methods"] if m["compared_at"] == budgets[0]]
    fair = result["fair"] == "time_average"
    name = "peak_resident" if fair else "mean_resident"
    values = [m[name] for m in own if m[name] is not None]
    line = (
        "Budgets are the mean resident tokens that were asked"
        if fair
        else "Budgets are the methods' own, not equal memory"
    )
    if any(m["method"] == POOLED for m in own):
        line += ", of a pooled memory what its options hold"
    if len(values) < 2 or max(values) <= APART * min(values):
        return [f"{line}."]
    word = "peaks" if fair else "means"
    return [
        f"{line}; at {tokens(budgets[0])} {word} run from {min(values):.0f} to {max(values):.0f}."
    ]


def not_written(given: int, total: int, brought: bool, mode: str) -> str:
    """Of how many prompts the full cache did not write the continuation; "" where it wrote all.

    `brought`: by the user, else by the task.
    """
    if not given:
        return ""
    whose = "the user's own" if brought else "the task's own"
    where = "The" if given == total else f"In {given} of {prompts(total)} the"
    if mode == "free":
        return f"{where} full cache read {whose} continuation and wrote none."
    return f"{where} continuation is {whose}, not the full cache's."


# ---- numbers


def tokens(budget: float) -> str:
    return f"{budget:g} tokens"


def _span(test: dict) -> str:
    """ ".12, 95 % from .05 to .20", with as many digits as leave no end at a false zero."""
    low, high = test["low"], test["high"]
    if low is None:
        return f"{number(test['diff'])}, one prompt"
    ends = [x for x in (test["diff"], low, high) if x]
    digits = next((d for d in (2, 3) if all(float(f"{x:.{d}f}") for x in ends)), 4)
    told = [number(x, digits) for x in (test["diff"], low, high)]
    return f"{told[0]}, 95 % from {told[1]} to {told[2]}"


def called(label: str) -> str:
    """ "beacon, n_beacon 8" inside a sentence: "beacon (beacons 8)"."""
    kind, *options = label.split(", ")
    words = []
    for option in options:
        name, space, value = option.partition(" ")
        words.append(WORDS.get(name, name.replace("_", " ")) + space + value)
    return f"{kind} ({', '.join(words)})" if words else kind


def names(told: list[str]) -> str:
    """ "a", "a and b", "a, b, c and 2 more"."""
    if len(told) > NAMES:
        return f"{', '.join(told[:NAMES])} and {len(told) - NAMES} more"
    return " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))
