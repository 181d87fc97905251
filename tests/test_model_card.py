"""The section of a model card: the numbers of the report, and honest words on what was not seen."""

from __future__ import annotations

import comparing
import numpy as np
import pytest
from comparing import N, curve, spec, store_run
from planted import rows

from engine.analysis.model_card import card
from engine.analysis.words import number

WILD = "a | <b>`x`</b> [y](z) *!*\n\x1b[31m\u202e$1$"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    found = comparing.Here(tmp_path_factory.mktemp("card-home"))
    control = store_run(found.store, spec(0), curve(None, 0.9), asked=False)
    store_run(found.store, spec(4, 4), curve(4, 0.2), control, title="one")
    yield found
    found.close()


@pytest.fixture
def shown(here) -> dict:
    return here.client.run(spec(4, 4).key)


def cells(text: str) -> dict[str, list[str]]:
    """First cell of each table row → the others."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines}


def test_the_numbers_are_the_reports(here, shown):
    text = here.client.model_card(spec(4, 4).key)["markdown"]
    assert text == card(shown)
    found = cells(text)
    assert found["Stride S"] == found["Window W"] == ["4"]
    assert found["Mean"][0] == number(shown["mean"], 3)
    ends = f"{number(shown['mean_low'], 3)} to {number(shown['mean_high'], 3)}"
    assert found["Mean"][1] == ends
    assert found["Worst phase (3)"][0] == number(shown["worst_folded"], 3)
    assert found["Gap, best less worst"][0] == number(shown["folded_gap"], 3)
    assert found["Gap that chance shows"] == [number(shown["gap_null"], 3), "p < .001"]
    assert found["Gap less chance"][0] == number(shown["excess"], 3)
    assert found["Period found"] == ["4", "p < .001"]
    assert found["Control, mean"][0] == number(shown["control"]["mean"], 3)
    for row in shown["folded"]:
        assert found[str(row["phase"])][:2] == [str(row["n"]), number(row["value"], 3)]
    assert shown["finding"] in text
    assert f"Run `{shown['key']}`" in text
    assert "Weights abc." in text
    assert "Seed 0." in text


def test_all_phases_are_covered_with_their_n(shown):
    assert f"All 4 phases are covered, n = {2 * N} each." in card(shown)


def report_of(frame) -> dict:
    from engine.analysis.report import report

    options = {"modulus": 8, "strides": (4,), "window": 4, "measure": "joint", "protocol": "outer"}
    return report(frame, None, **options)


def test_phases_that_were_not_seen_are_named(shown):
    """A worst phase among some is not the worst phase."""
    frame = rows(curve(4, 0.2))
    seen = frame[~frame["residue"].isin([1, 5, 3])]
    text = card(shown | report_of(seen))
    told = f"**3 of 4 phases are covered**, n = {N} to {2 * N} each. Phase 1 was not measured"
    assert told in text
    assert "the worst of those seen, and the true one may be worse" in text
    assert "24 prompts lack residues and are left out of the tests." in text.replace("\n", " ")
    some = card(shown | report_of(frame[frame["residue"] != 5]))
    assert "All 4 phases are covered, n = 24 to 48 each. 1 of 8 residues is missing." in some


def test_a_memory_without_a_grid_has_no_phases_of_its_own(here, shown):
    text = here.client.model_card(spec(0).key)["markdown"]
    assert "This memory has no grid, so there are no phases of its own; 8 of 8 residues" in text
    assert cells(text)["Control"][0] == "none"
    assert any(name.startswith("Worst residue (") for name in cells(text))


def test_residues_that_do_not_fit_the_stride_are_said(shown):
    made = report_of(rows(np.full((4, 8), 0.5)))
    made["period"] |= {"configured": None}
    memory = {"kind": "pooled", "window": 3, "stride": 3}
    text = card(shown | made | {"folded": [], "spec": shown["spec"] | {"memory": memory}})
    assert "8 residues are no multiple of the stride 3, so no phase of it is averaged" in text


def test_an_unfinished_run_a_stale_one_and_one_prompt_are_said(shown):
    text = card(shown | {"status": "cancelled", "stale": True, "n_samples": 1, "n_complete": 1})
    assert "The run is cancelled: numbers are of the rows stored so far." in text
    assert "Of an older code version or other weights than the ones here." in text
    assert "One prompt: how prompts differ is unknown." in text


def test_a_run_without_answers_and_a_document_pair(shown):
    from engine.results import NOTHING

    text = card(shown | NOTHING)
    assert "No phase is covered yet: there are no answers." in text
    assert "No answers yet." in text
    pair = card(shown | {"spec": shown["spec"] | {"protocol": "pair"}})
    assert "Phases are not covered: two documents were compared" in pair
    assert "Gap" not in "".join(cells(pair))


def test_text_of_users_stays_text(shown):
    spec = shown["spec"] | {"model": {"id": WILD, "dtype": "float32"}}
    text = card(shown | {"phrase": WILD, "finding": WILD, "doubt": WILD, "spec": spec})
    for line in text.splitlines():
        assert "<b>" not in line
        assert not any(ord(char) < 32 or char == "\u202e" for char in line)
    table = [line for line in text.splitlines() if line.startswith("| Model")]
    assert table[0].replace("\\|", "").count("|") == 3
    assert "\\`x\\`" in text
