"""One test a rule: the headline and the doubt never say more than the statistics allow."""

from __future__ import annotations

import copy

import pytest

from engine.analysis.finding import say
from engine.analysis.words import every, number, p_value, prompts, two

MINUS = "\N{MINUS SIGN}"


def block(**changes) -> dict:
    """A flat block; names that start with period_ reach into it."""
    made = {
        "protocol": "outer",
        "compressed": True,
        "modulus": 16,
        "n_samples": 12,
        "n_complete": 12,
        "constant": False,
        "chance": None,
        "mean": 0.53,
        "mean_low": 0.49,
        "gap": 0.05,
        "gap_null": 0.04,
        "gap_p": 0.64,
        "folded_gap": 0.03,
        "folded_gap_low": 0.0,
        "folded_gap_high": 0.06,
        "worst_phase": 0,
        "best_phase": 2,
        "worst_folded": 0.301,
        "best_folded": 0.782,
        "worst_residue": 4,
        "period": {"detected": None, "p": 0.5, "configured": 4},
        "control": None,
    }
    period = {
        k.removeprefix("period_"): changes.pop(k) for k in list(changes) if k.startswith("period_")
    }
    made["period"] |= period
    made |= changes
    gap = made["folded_gap"]
    made["excess"] = None if gap is None else gap - made["gap_null"]
    made["excess_low"] = made["folded_gap_low"]
    return made


PERIOD = {"period_detected": 4, "period_p": 0.0005}
WEAK = {"gap_p": 0.0005, "folded_gap": 0.48, "folded_gap_low": 0.4, "gap_null": 0.09}
FLAT = block()


def test_a_gap_that_chance_would_give_is_no_weak_phase():
    """The headline uses the gap less its null expectation, not the gap."""
    finding, _ = say(block(**PERIOD, **(WEAK | {"gap_null": 0.5}), control=FLAT))
    assert "no phase resolved as weak" in finding


def test_both_tests_and_a_flat_control():
    finding, doubt = say(
        block(**PERIOD, **WEAK, control=FLAT), "A one-hot gate keeps one token of four."
    )
    assert finding == "Every fourth token the answer fades: .30 at phase 0, .78 at phase 2"
    assert doubt == (
        "The detected period of 4 is the configured stride (p < .001); "
        "gap .48, .09 by chance (p < .001). "
        "On the same copies the full cache is flat, gap .03 (p = .64). "
        "A one-hot gate keeps one token of four."
    )


def test_nothing_significant():
    assert say(block(control=FLAT))[0] == "No phase effect resolved with 12 prompts"
    assert "No period detected (p = .50), configured 4" in say(block(control=FLAT))[1]


def test_only_the_period_never_names_a_weak_phase():
    finding, _ = say(block(**PERIOD, control=FLAT))
    assert finding == (
        "Period 4, the configured stride (p < .001); no phase resolved as weak across 12 prompts"
    )


def test_only_the_gap_never_claims_a_period():
    finding, _ = say(block(**WEAK, control=FLAT))
    assert (
        finding
        == "Phase 0 is weak across 12 prompts, .30 against .78 at phase 2; no period resolved"
    )


def test_an_interval_that_reaches_zero_is_no_weak_phase():
    finding, _ = say(block(**PERIOD, **(WEAK | {"folded_gap_low": 0.0}), control=FLAT))
    assert "fades" not in finding
    assert "no phase resolved as weak" in finding


def test_same_period_in_the_control_is_an_artefact():
    control = block(**PERIOD, **WEAK)
    finding, doubt = say(block(**PERIOD, **WEAK, control=control))
    assert finding == (
        "Period 4 shows in the full cache too, gap .48 against .48: "
        "a numerics or prompt artefact, or chance"
    )
    assert (
        "has gap .48 (p < .001) and period 4 (p < .001), a numerics or prompt artefact, or chance"
        in doubt
    )


def test_another_period_in_the_control_is_named():
    control = block(period_detected=8, period_p=0.01)
    finding, _ = say(block(**PERIOD, **WEAK, control=control))
    assert finding.startswith("Period 4 found, but the full cache has period 8 of its own")


def test_weak_phase_in_the_control_is_named():
    finding, doubt = say(block(**PERIOD, **WEAK, control=block(**WEAK)))
    assert finding.startswith("Period 4 found, but the full cache has a weak phase too")
    assert "has a weak phase too, gap .48" in doubt
    finding, _ = say(block(**WEAK, control=block(**WEAK)))
    assert finding.startswith("Phase 0 is weak, but the full cache has a weak phase too")


def test_a_period_in_the_control_alone_is_told_in_the_doubt():
    finding, doubt = say(block(control=block(period_detected=8, period_p=0.01)))
    assert finding == "No phase effect resolved with 12 prompts"
    assert "period 8 (p = .010), a numerics or prompt artefact, or chance" in doubt


def test_without_control_nothing_is_laid_at_the_memory():
    finding, doubt = say(block(**PERIOD, **WEAK))
    assert "fades" not in finding
    assert finding.endswith("no control to compare with yet")
    assert "No control to compare with yet" in doubt


@pytest.mark.parametrize(
    ("detected", "words"),
    [(2, "a divisor of"), (8, "a multiple of"), (6, "not")],
)
def test_a_period_other_than_the_stride_is_set_beside_it(detected, words):
    run = block(**(PERIOD | {"period_detected": detected}), **WEAK, control=FLAT)
    finding, doubt = say(run)
    told = f"{words} the configured stride 4"
    assert finding == f"Period {detected} found, {told}: .30 at phase 0, .78 at phase 2"
    assert told in doubt


def test_one_prompt_claims_nothing_across_prompts():
    one = {"n_samples": 1, "n_complete": 1, "gap_p": 1.0, "folded_gap_low": None}
    finding, doubt = say(block(**PERIOD, **one, control=block(**one)))
    assert finding == (
        "Period 4, the configured stride (p < .001); "
        "one prompt cannot show a weak phase across prompts"
    )
    assert "gap .03 in one prompt" in doubt
    assert say(block(**one, control=FLAT))[0] == "No phase effect resolved with 1 prompt"


def test_the_full_cache_by_itself():
    own = {"period_configured": None, "folded_gap": None, "folded_gap_low": None}
    own |= {"compressed": False}
    finding, doubt = say(block(**own))
    assert finding == "No phase effect resolved without compression, with 12 prompts: mean .53"
    assert doubt == "No period detected (p = .50); gap .05, .04 by chance (p = .64)."
    finding, _ = say(block(**own, period_detected=8, period_p=0.004))
    assert (
        finding
        == "Period 8 without any compression (p = .004): a numerics or prompt artefact, or chance"
    )
    finding, _ = say(block(**own, gap_p=0.01))
    assert finding.startswith("Residue 4 is weak without any compression, across 12 prompts")
    finding, _ = say(block(**own, constant=True))
    assert finding == "Without compression the answer is the same at every residue: .53"


def test_a_memory_without_a_stride_compresses_all_the_same():
    """W = 8 with S = 1, or one that evicts: nothing is said of the full cache."""
    own = {"period_configured": None, "folded_gap": None, "folded_gap_low": None}
    flat = block(**own)
    assert say(block(**own, control=flat))[0] == "No phase effect resolved with 12 prompts"
    assert say(block(**own, constant=True))[0].startswith("The answer does not move with the phase")
    assert say(block(**own, chance=0.5))[0].startswith("The answer is at chance, .53")
    moves = own | {"period_detected": 8, "period_p": 0.004}
    finding, _ = say(block(**moves, control=flat))
    assert finding == ("Period 8 found (p = .004); no stride is configured that 16 residues fold")
    assert say(block(**moves))[0].endswith("fold; no control to compare with yet")
    finding, _ = say(block(**moves, control=block(**moves)))
    assert finding == (
        "Period 8 found (p = .004), but the full cache has period 8 too, gap .05 against .05"
    )
    finding, _ = say(block(**own, gap_p=0.01, control=flat))
    assert finding.startswith("Residue 4 is weak across 12 prompts; no stride")
    finding, _ = say(block(**own, gap_p=0.01, control=block(**own, gap_p=0.01)))
    assert "but the full cache has a weak residue too" in finding


def test_constant_control_under_a_moving_origin():
    control = block(constant=True, folded_gap=0.0, gap_p=1.0, period_p=1.0)
    finding, doubt = say(block(**PERIOD, **WEAK, protocol="grid_origin", control=control))
    assert finding.startswith("Every fourth token")
    assert (
        "the full cache is constant, gap .00 (p = 1.00), as it must be when only the grid's origin "
        "moves: whatever moves is the memory."
    ) in doubt


def test_a_constant_memory():
    finding, _ = say(block(constant=True, control=FLAT))
    assert finding == "The answer does not move with the phase: .53 at every residue"


def test_flat_at_chance_is_not_healthy():
    low = {"chance": 0.02, "mean": 0.021, "mean_low": 0.01}
    finding, doubt = say(block(**low, control=FLAT))
    assert finding == "The answer is at chance, .02: a phase effect could not show"
    assert doubt.endswith("a guess scores .02.")
    assert "chance" not in say(block(chance=0.02, control=FLAT))[0]


def test_large_gap_in_the_control_is_not_called_flat():
    _, doubt = say(block(**PERIOD, control=block(folded_gap=0.15, gap_p=0.3)))
    assert "shows no resolved effect, gap .15 (p = .30)" in doubt
    assert "flat" not in doubt


def test_lengthen_is_named_the_weakest_protocol():
    _, doubt = say(block(**PERIOD, **WEAK, protocol="lengthen", control=FLAT))
    assert "Lengthen is the weakest protocol" in doubt


def test_a_control_of_another_name():
    _, doubt = say(block(control=FLAT), control_name="the trained full model")
    assert "On the same copies the trained full model is flat" in doubt


def test_unfinished_runs_claim_nothing():
    assert say(block(n_samples=0, n_complete=0), "Note.") == ("No answers yet", "Note.")
    finding, _ = say(block(n_complete=0, **PERIOD, **WEAK))
    assert finding == "No prompt has been answered at every residue yet"


def pair(**changes) -> dict:
    made = {
        "first": 0.9,
        "second": 0.4,
        "difference": -0.5,
        "low": -0.6,
        "high": -0.4,
        "p": 0.001,
        "n": 12,
    }
    beyond = {"difference": -0.45, "low": -0.6, "high": -0.3, "p": 0.001, "n": 12}
    control = block() | {"residues": [{"value": 0.9}, {"value": 0.85}]}
    run = block(protocol="pair", control=control, period_p=None)
    return run | {"pair": made | {"beyond_control": beyond} | changes}


def test_pair_tells_a_difference_and_no_period():
    finding, doubt = say(pair())
    assert finding == "One token lowers the answer from .90 to .40 across 12 pairs"
    assert f"Difference {MINUS}.50 (95 % from {MINUS}.60 to {MINUS}.40, p = .001)" in doubt
    assert f"the full cache moves by {MINUS}.05" in doubt


def test_pair_unresolved():
    assert say(pair(p=0.3))[0] == "No difference between the two documents resolved with 12 pairs"
    assert "resolved with 12" in say(pair(low=-0.6, high=0.1))[0]


def test_one_pair_resolves_nothing():
    finding, _ = say(pair(n=1, low=None, high=None, p=1.0))
    assert finding.endswith("one pair resolves nothing")


def test_pair_that_the_control_shares():
    beyond = {"difference": -0.05, "low": -0.2, "high": 0.1, "p": 0.5, "n": 12}
    assert say(pair(beyond_control=beyond))[0].endswith(
        "not resolved from the control's own change"
    )
    assert say(copy.deepcopy(pair(beyond_control=None)))[0].endswith("no control yet")


def test_numbers_are_written_as_the_field_writes_them():
    assert [number(x) for x in (0.301, 0.0, 1.0, -0.05, -0.001, 12.5, None)] == [
        ".30",
        ".00",
        "1.00",
        f"{MINUS}.05",
        ".00",
        "12.50",
        "unknown",
    ]
    assert two(0.301, 0.302) == (".301", ".302")
    assert [p_value(p) for p in (0.0005, 0.004, 0.048, 0.0998, 0.64, 1.0)] == [
        "p < .001",
        "p = .004",
        "p = .048",
        "p = .10",
        "p = .64",
        "p = 1.00",
    ]
    assert [every(p) for p in (2, 12, 16, 22, 113)] == [
        "Every second token",
        "Every twelfth token",
        "Every 16th token",
        "Every 22nd token",
        "Every 113th token",
    ]
    assert (prompts(1), prompts(12)) == ("1 prompt", "12 prompts")
