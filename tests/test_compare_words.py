"""The sentence of a comparison: each rule, and that it claims no more than was resolved."""

from __future__ import annotations

import itertools

import pytest

from engine.analysis.compare_words import label, of_older_code, say

KEYS = itertools.count()


def run(name: str, **more) -> dict:
    told = {"key": f"k{next(KEYS)}", "name": name, "status": "done", "subtitle": ""}
    told |= {"window": None, "model": "m", "bytes_per_token": None}
    return told | more


FULL = run("Full cache")


def row(one: dict, diff: float, sure: bool = True, n: int = 192, **more) -> dict:
    low, high = (diff - 0.02, diff + 0.02) if sure else (diff - 0.1, diff + 0.1)
    told = {"key": one["key"], "diff": diff, "low": low, "high": high, "n": n, "resolved": sure}
    return told | {"reason": "", "value": 0.8 + diff, "base_value": 0.8} | more


def made(runs: list[dict], rows: dict[str, list[dict]], base: dict = FULL) -> dict:
    measures = [{"name": name, "label": name, "rows": lines} for name, lines in rows.items()]
    return {"base": base["key"], "runs": [base, *runs], "measures": measures}


def one(mean: float, worst: float, sure: tuple[bool, bool], n: int = 192) -> tuple[str, str]:
    other = run("W8 S8")
    rows = {"mean": [row(other, mean, sure[0], n)], "worst": [row(other, worst, sure[1], n)]}
    return say(made([other], rows))


# ---- one run beside its control


@pytest.mark.parametrize(
    ("mean", "worst", "sure", "finding", "doubt"),
    [
        (
            *(-0.14, -0.78, (True, True)),
            "W8 S8 loses .14 in the mean and .78 in the worst phase against the full cache",
            "",
        ),
        (
            *(0.05, 0.2, (True, True)),
            "W8 S8 gains .05 in the mean and .20 in the worst phase against the full cache",
            "",
        ),
        (
            *(0.03, -0.3, (True, True)),
            "W8 S8 gains in the mean and loses in the worst phase, against the full cache",
            "",
        ),
        (
            *(-0.03, 0.3, (True, True)),
            "W8 S8 gains in the worst phase and loses in the mean, against the full cache",
            "",
        ),
        (
            *(-0.02, -0.5, (False, True)),
            "W8 S8 loses .50 in the worst phase against the full cache",
            "The means differ by .02, which 192 prompts do not separate.",
        ),
        (
            *(-0.1, -0.04, (True, False)),
            "W8 S8 loses .10 in the mean against the full cache",
            "The worst phases differ by .04, which 192 prompts do not separate.",
        ),
        (
            *(-0.01, -0.02, (False, False)),
            "W8 S8 and the full cache are not told apart by 192 prompts",
            "The mean may differ by −.11 to .09 and the worst phase may differ by −.12 to .08.",
        ),
    ],
)
def test_one_run_beside_its_baseline(mean, worst, sure, finding, doubt):
    assert one(mean, worst, sure) == (finding, doubt)


def test_a_document_pair_has_a_mean_alone():
    other = run("W8 S8")
    rows = {"mean": [row(other, -0.2)], "worst": [{"key": other["key"], "reason": "no phases"}]}
    assert say(made([other], rows))[0] == "W8 S8 loses .20 in the mean against the full cache"
    rows["mean"] = [row(other, -0.2, False)]
    assert say(made([other], rows)) == (
        "W8 S8 and the full cache are not told apart by 192 prompts",
        "The mean may differ by −.30 to −.10.",
    )


def test_too_few_prompts_are_named():
    assert "3 prompts cannot show a difference, whatever its size." in one(-0.5, -0.5, (0, 0), 3)[1]
    assert "cannot show" not in one(-0.5, -0.5, (False, False), 30)[1]


def test_a_run_at_work_is_named():
    other = run("W8 S8", status="running")
    told = say(made([other], {"mean": [row(other, -0.2)], "worst": [row(other, -0.3)]}))[1]
    assert told == "Not finished: W8 S8."


def test_what_cannot_be_paired_says_why():
    other = run("W8 S8")
    rows = {name: [{"key": other["key"], "reason": "seed differs"}] for name in ("mean", "worst")}
    assert say(made([other], rows)) == ("These runs cannot be paired", "Seed differs.")


# ---- several runs


def several(best: dict, poor: dict, worst: bool = True, mean: bool = False, **more) -> tuple:
    lines = [row(best, -0.3), row(poor, -0.7)]
    tests = {
        "worst": {"diff": 0.45, "value": 0.6, "base_value": 0.15, "resolved": worst, "n": 192},
        "mean": {"diff": 0.02, "value": 0.83, "base_value": 0.81, "resolved": mean, "n": 192},
    }
    between = {"best": best["key"], "worst": poor["key"], "tests": tests, "alike": True}
    return say(made([best, poor], {"mean": lines, "worst": lines}), between | more)


def overlapping(**more) -> tuple[dict, dict]:
    best = run("W8 S6", subtitle="overlap", window=8, bytes_per_token=43.0, **more)
    return best, run("W8 S8", subtitle="no overlap", window=8, bytes_per_token=32.0)


def test_overlap_is_named_where_nothing_else_differs():
    finding, doubt = several(*overlapping())
    assert finding == "Overlap buys the worst phase: .60 against .15, at a third more bytes"
    assert doubt == (
        "W8 S6 and W8 S8 differ in mean by .02, which 192 prompts do not separate. "
        "Neither reaches the full cache."
    )
    assert "a model of its own: one training each" in several(*overlapping(model="n"))[1]


@pytest.mark.parametrize(
    "change", [{"window": 12}, {"subtitle": "no overlap"}, {"subtitle": "staggered"}]
)
def test_overlap_is_not_named_where_more_differs(change):
    best, poor = overlapping()
    told = several(best | change, poor)[0]
    assert told == "W8 S6 keeps more in the worst phase than W8 S8: .60 against .15" + (
        ", at a third more bytes"
    )
    assert several(best, poor, alike=False)[0] == told
    assert not several(poor, best)[0].startswith("Overlap")  # it is the other that overlaps


@pytest.mark.parametrize(
    ("share", "words"),
    [
        *((0.5, "at fewer bytes"), (1, "at as many bytes"), (1.1, "at slightly more bytes")),
        *((1.25, "at a quarter more bytes"), (1.5, "at half as many bytes again")),
        *((1.67, "at two thirds more bytes"), (2.0, "at twice the bytes or more")),
    ],
)
def test_bytes_in_words(share, words):
    best, poor = overlapping()
    assert several(best | {"bytes_per_token": 32 * share}, poor)[0].endswith(f", {words}")
    assert several(best | {"bytes_per_token": None}, poor)[0].endswith("against .15")


def test_a_better_mean_is_told_where_the_worst_phases_are_not_apart():
    finding, doubt = several(*overlapping(), worst=False, mean=True)
    assert finding == "W8 S6 has a better mean than W8 S8, by .02"
    assert doubt.startswith("Their worst phases differ by .45, which 192 prompts do not separate.")
    assert "The mean of W8 S6 is .02 higher." in several(*overlapping(), mean=True)[1]


def test_runs_that_are_not_told_apart_stand_against_the_baseline():
    best, poor = overlapping()
    finding, _ = several(best, poor, worst=False)
    assert finding == "Both lose in the worst phase against the full cache, .70 at most"
    third = run("W4 S4")
    lines = [row(best, 0.1), row(poor, 0.1), row(third, 0.2)]
    told = made([best, poor, third], {"mean": lines, "worst": lines})
    assert say(told)[0] == "All 3 gain in the worst phase against the full cache"


@pytest.mark.parametrize(
    ("diffs", "sure", "finding"),
    [
        ((-0.3, -0.1), (True, False), "A loses in the worst phase against the full cache; of the "
         "others it is not shown"),
        ((0.3, -0.1), (True, False), "A gains in the worst phase against the full cache; of the "
         "others it is not shown"),
        ((-0.3, 0.2), (True, True), "A loses in the worst phase against the full cache, B gains"),
        ((-0.3, 0.2), (False, False), "192 prompts tell none of these runs from the full cache"),
    ],
)  # fmt: skip
def test_some_of_several(diffs, sure, finding):
    runs = [run("A"), run("B")]
    lines = [row(*args) for args in zip(runs, diffs, sure, strict=True)]
    assert say(made(runs, {"mean": lines, "worst": lines}))[0] == finding


# ---- decode runs


def test_the_largest_resolved_difference_of_decode_runs():
    other, base = run("rkv, 96 tokens"), run("beacon, 96 tokens")
    words = {"label": "rkv 96", "base_label": "full cache"}
    lines = [row(other, 0.12, **words), row(other, 0.4, sure=False, **words)]
    told = say(made([other], {"nll": lines, "recall": []}, base))
    assert told == (
        "Rkv 96 loses .12 nats of negative log-likelihood against full cache",
        "The largest of 2 differences.",
    )
    better = say(made([other], {"nll": [], "recall": [row(other, 0.12, **words)]}, base))
    assert better == ("Rkv 96 gains .12 of recall against full cache", "")
    nothing = {"nll": [row(other, 0.1, False, 5, **words)], "recall": []}
    assert say(made([other], nothing, base)) == ("5 prompts tell no method from its baseline", "")


def test_labels_name_the_measure():
    assert label("mean", "accuracy") == "mean accuracy"
    assert label("mean", "joint") == "mean probability"
    assert label("worst", "accuracy") == "worst phase"


def test_no_sentence_leads_with_a_zero():
    assert "0." not in "".join(one(-0.14, -0.78, (True, True)))


@pytest.mark.parametrize(
    ("stale", "told"),
    [
        ((0, 0, 0), []),
        ((0, 1, 0), ["b is of other code or weights than the ones here."]),
        ((1, 0, 1), ["2 of the 3 runs are of other code or weights than the ones here."]),
        ((1, 1, 1), ["All 3 runs are of other code or weights than the ones here."]),
        ((1, 1), ["Both runs are of other code or weights than the ones here."]),
    ],
)
def test_runs_of_older_code_are_told_in_one_sentence(stale, told):
    runs = [{"name": name, "stale": old} for name, old in zip("abc", stale, strict=False)]
    assert of_older_code(runs) == told
