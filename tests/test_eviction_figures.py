"""The Eviction page's figures: what is drawn, where, and in which role's colour."""

from __future__ import annotations

from itertools import pairwise

import made_trace
import numpy as np
import pandas as pd
import pytest

from app.eviction import frames
from app.figures.budget import against_budget, budget_panel, budget_ticks, hover, pareto
from app.figures.costs import held, latency
from app.figures.marks import mark
from app.figures.names import brief
from app.figures.observed import cosine, coverage, distances, pca
from app.figures.overtime import SMOOTH, held_bytes, likelihood, regret, restored, retention
from app.figures.pairs import paired
from app.figures.published import Panel, beside
from app.figures.theme import DARK, LIGHT, round_ticks
from app.figures.timeline import colours, timeline
from app.figures.votes import scores, voters

STEPS = 120


@pytest.fixture(scope="module")
def trace() -> dict:
    return made_trace.trace(
        arm=1, method="beacon", budget=96, sample=0, layer=2, kv_head=1, steps=STEPS
    )


def traces_of(fig, name: str) -> list:
    return [t for t in fig.data if t.name == name]


def texts(fig) -> list[str]:
    return [a.text for a in fig.layout.annotations]


def segment(position: int, state: str, start: int, stop: int, text: str = " a") -> dict:
    return {"position": position, "text": text, "state": state, "start": start, "stop": stop}


def arm(label: str, budget: int, value: float, place: int = 0, **more) -> dict:
    drawn = mark(place)
    row = {"label": label, "budget": budget, "value": value, "low": value - 0.1}
    row |= {"high": value + 0.1, "resident": budget * 0.9, "peak": budget, "bytes": budget * 1e3}
    row |= {"peak_bytes": budget * 1.2e3, "front": False, "colour": drawn.colour}
    return row | {"text": drawn.text, "symbol": drawn.symbol} | more


# ---- timeline


def test_the_timeline_has_one_bar_a_state_and_one_line_an_event():
    rows = [segment(0, "protected", 0, 9), segment(1, "present", 0, 4)]
    rows += [segment(1, "evicted", 4, 9), segment(2, "written", 2, 9, "<b>")]
    fig = timeline(pd.DataFrame(rows), events=[4, 7], chosen=1, marks=[("plan", 0, 1)])
    shade = colours(LIGHT)
    assert {t.marker.color for t in fig.data} == set(shade.values())
    gone = traces_of(fig, "evicted")[0]
    assert (list(gone.y), list(gone.base), list(gone.x)) == ([1], [4], [5])
    new = traces_of(fig, "new since the last event")[0]
    assert new.customdata[0][0] == "&lt;b&gt;"
    lines = [s for s in fig.layout.shapes if s.type == "line"]
    assert [(s.x0, s.line.color) for s in lines] == [(4, LIGHT.ink3), (7, LIGHT.ink)]
    assert "event 2" in texts(fig)
    assert "plan" in texts(fig)
    assert tuple(fig.layout.yaxis.range) == (2.5, -0.5)


def test_a_long_text_is_thinned_and_says_so():
    rows = pd.DataFrame([segment(i, "present", 0, 10) for i in range(2000)])
    fig = timeline(rows, events=[], chosen=None)
    assert len(fig.data[0].y) < 1000
    assert "every 3th" in fig.layout.title.text


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_states_differ_in_lightness(look):
    def grey(colour: str) -> float:
        return sum(w * int(colour[i : i + 2], 16) for w, i in ((0.3, 1), (0.59, 3), (0.11, 5)))

    shades = [grey(c) for c in colours(look).values()]
    steps = [b - a for a, b in pairwise(shades)]
    assert all(s < -15 for s in steps) or all(s > 9 for s in steps)


# ---- votes


def test_fates_differ_in_symbol_and_colour(trace):
    fig = scores(frames.event(trace, 0), subtitle="s")
    drawn = {t.name: (t.marker.symbol, t.marker.color) for t in fig.data}
    assert len(set(drawn.values())) == 3
    assert drawn["kept"] == ("circle", LIGHT.memory)
    assert fig.layout.yaxis.type == "log"
    counts = frames.event(trace, 0)["fate"].value_counts()
    assert {t.name: len(t.x) for t in fig.data} == counts.to_dict()


def test_scores_with_signs_stand_on_a_linear_axis_and_none_is_told():
    frame = pd.DataFrame(
        {"position": [0, 1], "text": "a", "score": [-0.5, 0.5], "fate": ["evicted", "kept"]}
    )
    assert scores(frame, subtitle="").layout.yaxis.type != "log"
    empty = scores(frame.assign(score=np.nan), subtitle="")
    assert texts(empty) == ["This method gives no scores"]


def test_each_voter_has_its_row(trace):
    frame, told = frames.event(trace, 0), trace["events"][0]
    observers, won = frames.observers(told, frames.texts(trace)), frames.voted(frame)
    fig = voters(won, observers)
    beacon, recent = traces_of(fig, "beacon")[0], traces_of(fig, "recent")[0]
    assert len(beacon.x) + len(recent.x) == len(won)
    assert max(beacon.y) < 12 <= min(recent.y)
    assert beacon.marker.symbol != recent.marker.symbol
    ticks = list(fig.layout.yaxis.ticktext)
    assert ticks[:2] == ["b1", "b2"]  # the position of a beacon is not kept
    assert ticks[12:] == observers["position"][12:].astype(str).tolist()
    assert {"beacons", "recent"} <= set(texts(fig))
    assert texts(voters(won.head(0), observers.head(0))) == ["This method asks no queries"]


# ---- observation set


def test_cosine_and_components_of_the_observers(trace):
    told = trace["events"][0]
    observers = frames.observers(told, {})
    cells = frames.cosine(told, observers)
    fig = cosine(cells, observers)
    assert fig.data[0].zmax == 1
    assert np.allclose(np.diag(fig.data[0].z), 1)
    lines = [s for s in fig.layout.shapes if s.type == "line"]
    assert {s.x0 for s in lines} & {11.5}
    points, history = frames.components(told, observers)
    drawn = pca(points, history)
    assert [t.name for t in drawn.data] == ["history", "recent", "beacon"]  # beacons above all
    assert drawn.data[2].marker.symbol == "diamond"
    assert texts(cosine(np.zeros((0, 0)), observers.head(0))) == ["This method keeps no queries"]


def test_coverage_puts_the_best_on_top_and_marks_the_methods_own():
    rows = [("a", 1, 0.2), ("a", 2, 0.4), ("b", 1, 0.8), ("b", 2, 0.9)]
    frame = pd.DataFrame(rows, columns=["selector", "position", "cosine"])
    fig = coverage(frame, own="b")
    assert list(fig.layout.yaxis.ticktext) == ["<b>b</b>", "a"]
    assert [s.line.color for s in fig.layout.shapes] == [LIGHT.memory, LIGHT.ink2]
    assert [s.x0 for s in fig.layout.shapes] == pytest.approx([0.85, 0.3])


def test_global_queries_are_a_table_of_layers_and_heads_with_the_group_outlined():
    rows = [[layer, head, 0.1 * head] for layer in range(2) for head in range(4)]
    frame = pd.DataFrame(rows, columns=["layer", "head", "share"])
    fig = distances(frame, subtitle="", layer=1, heads=(2, 3))
    assert fig.data[0].z.shape == (2, 4)
    box = fig.layout.shapes[0]
    assert (box.x0, box.x1, box.y0, box.y1) == (1.5, 3.5, 0.5, 1.5)


# ---- over time


def test_likelihood_is_a_moving_mean_beside_the_full_caches_grey():
    frame = pd.DataFrame({"position": range(40), "text": "a", "nll": 2.0, "full": 1.0})
    frame.loc[SMOOTH:, "nll"] = 4.0
    fig = likelihood(frame, label="BeaconKV, n beacon 8", events=[10], chosen=0)
    full, own = fig.data
    assert (full.line.color, own.line.color) == (LIGHT.control, LIGHT.memory)
    assert own.y[SMOOTH // 2 + SMOOTH - 1] == pytest.approx(3.0)
    assert tuple(fig.layout.xaxis.range) == (0, 39)
    assert "full cache" in texts(fig)
    assert fig.layout.shapes[0].line.color == LIGHT.ink


def test_bytes_choose_a_unit():
    frame = pd.DataFrame({"position": [0, 1], "text": "a", "bytes": 2e5, "full": [3e6, 4e6]})
    fig = held_bytes(frame, label="a")
    assert fig.layout.yaxis.title.text == "MB"
    assert list(fig.data[0].y) == [3, 4]
    assert fig.data[1].line.shape == "hv"


def test_regret_and_retention_stand_on_shares():
    frame = pd.DataFrame({"position": [3, 4], "text": "a", "mass": [0.1, 0.6]})
    assert tuple(regret(frame, subtitle="").layout.yaxis.range) == (0, 1.02)
    marks = pd.DataFrame({"seen": [5, 9, 5, 9], "mark": ["plan", "plan", "old tower", "old tower"]})
    marks["retained"] = [1.0, 0.5, 0.9, 0.2]
    fig = retention(marks, subtitle="")
    assert len({t.line.dash for t in fig.data}) == 2
    assert {"── plan", "╌╌ old tower"} <= set(texts(fig))  # as their lines are dashed


def test_restored_answers_move_from_hollow_to_solid_with_numbers_beside():
    frame = pd.DataFrame({"mark": ["<i>"], "before": [-4.0], "after": [-1.0], "full": [-0.5]})
    fig = restored(frame)
    kinds = {t.name: t.marker.symbol for t in fig.data if t.name}
    assert kinds == {"full cache": "circle", "as it was": "circle-open", "put back": "circle"}
    assert {"−4.00", "−1.00", "−.50", "as it was", "put back", "full"} <= set(texts(fig))
    assert list(fig.layout.yaxis.ticktext) == ["&lt;i&gt;"]


# ---- quality and cost


def test_lines_over_mean_resident_tokens_with_the_full_cache_in_grey():
    frame = pd.DataFrame([arm("a", 96, 0.5), arm("a", 128, 0.6), arm("b, x 1", 96, 0.4, 1)])
    fig = against_budget(frame, {"value": 0.9, "low": 0.8, "high": 1.0}, measure="recall")
    full = traces_of(fig, "full cache")[0]
    assert full.line.color == LIGHT.control
    assert list(traces_of(fig, "a")[0].x) == pytest.approx([86.4, 115.2])
    assert tuple(fig.layout.yaxis.range) == (0, 1.02)
    assert any(t.startswith("b<br>") for t in texts(fig))
    ribbons = [t for t in fig.data if t.fill == "toself"]
    assert len(ribbons) == 1  # one budget alone has no ribbon
    card = traces_of(fig, "a")[0].text[0]
    assert "peak 96" in card
    assert "kB" in card
    assert "removed" not in card  # without a share there is none to tell


def test_a_hover_card_tells_how_much_is_kept_and_removed():
    row = arm("a", 96, 0.5, kept_share=0.236, removed_share=0.764)
    card = hover(row).split("<br>")
    assert card[:2] == ["a, budget 96 tokens", "23.6 % kept, 76.4 % removed"]
    many = pd.DataFrame([row, arm("b", 96, 0.4, 1, kept_share=0.236, removed_share=0.764)])
    for fig in (
        against_budget(many, None, measure="recall"),
        budget_panel(many.head(1), many, None, measure="recall"),
        pareto(many, None, measure="recall"),
    ):
        assert "76.4 % removed" in traces_of(fig, "a")[0].text[0]


def test_likelihoods_fit_their_axis_and_nothing_is_told():
    frame = pd.DataFrame([arm("a", 96, 2.0), arm("a", 128, 1.9)])
    fig = against_budget(frame, None, measure="nll")
    low, high = fig.layout.yaxis.range
    assert low < 1.8
    assert high > 2.1
    assert texts(against_budget(frame.head(0), None, measure="nll")) == [
        "No budget is measured yet"
    ]


def test_panels_of_many_methods_share_one_scale():
    frame = pd.DataFrame([arm(str(i), b, 0.1 * i, i) for i in range(7) for b in (96, 128)])
    figs = [
        budget_panel(frame[frame["label"] == str(i)], frame, None, measure="nll") for i in (0, 6)
    ]
    assert figs[0].layout.yaxis.range == figs[1].layout.yaxis.range
    assert figs[0].layout.xaxis.range == figs[1].layout.xaxis.range
    assert budget_ticks(frame, 90, 130)["ticktext"] == ["96", "128"]  # the budgets that were asked
    assert budget_ticks(frame, 100, 130)["ticktext"] != ["96", "128"]  # they leave the axis
    full = {"value": 0.0, "low": None, "high": None}
    narrow = budget_panel(frame.head(2), frame, full, measure="nll").layout.yaxis
    assert narrow.range[0] < 0  # the full cache's line is not the axis
    assert len(narrow.tickvals) >= 3
    assert narrow.title.text == "nats"


def test_names_are_as_short_as_they_differ():
    labels = ["beacon", "beacon, beacons 0, recent 32", "rkv, every 16"]
    assert list(brief(labels).values()) == ["beacon", "beacon, beacons 0, recent 32", "rkv"]


def test_pareto_joins_what_is_flagged_with_the_full_cache():
    frame = pd.DataFrame([arm("a", 96, 0.5, front=True), arm("b", 128, 0.4, 1)])
    full = {"value": 0.9, "bytes": 5e5, "peak_bytes": 6e5, "front": True}
    fig = pareto(frame, full, measure="recall")
    line = traces_of(fig, "beaten by none")[0]
    assert list(line.x) == [96e3, 5e5]
    assert list(line.y) == [0.5, 0.9]
    own = traces_of(fig, "a")[0]
    assert list(own.marker.symbol) == ["circle", "circle-open"]  # mean, peak
    assert fig.layout.xaxis.type == "log"


def test_pairs_are_solid_where_resolved_and_carry_their_numbers():
    row = {"budget": 96, "a": "A", "b": "B", "diff": 0.2, "low": 0.1, "high": 0.3}
    row |= {"p_corrected": 0.004, "resolved": True, "colour": "#0072B2", "symbol": "circle"}
    other = row | {"diff": 0.0, "low": np.nan, "high": np.nan, "resolved": False}
    fig = paired(pd.DataFrame([row, other | {"p_corrected": 0.5}]), measure="recall")
    (dots,) = fig.data
    assert list(dots.marker.color) == ["#0072B2", LIGHT.page]
    assert {".200", ".10 to .30", "p = .004", "–", "p = .50"} <= set(texts(fig))
    assert next(iter(fig.layout.yaxis.ticktext)) == "<b>96 tokens</b>"
    assert texts(paired(pd.DataFrame(), measure="nll"))


def test_bytes_are_stacked_and_the_peak_is_a_line():
    frame = pd.DataFrame(
        {"label": ["full cache", "a"], "mean_bytes": [4e5, 1e5], "state_bytes": [0, 2e4]}
        | {"peak_bytes": [6e5, 1.5e5], "colour": [LIGHT.control, LIGHT.memory]}
    )
    fig = held(frame)
    assert fig.layout.barmode == "stack"
    assert fig.layout.xaxis.title.text == "kB"
    assert [s.x0 for s in fig.layout.shapes] == [600, 150]


def test_latency_tells_steps_from_events():
    frame = pd.DataFrame(
        {"label": ["full cache", "a"], "step_p50": [30.0, 31], "step_p99": [40.0, 41]}
        | {"event_p50": [np.nan, 6], "event_p99": [np.nan, 15], "colour": "#0072B2"}
    )
    fig = latency(frame)
    assert [t.name for t in fig.data] == ["step", "step", "event"]
    assert list(fig.data[2].marker.symbol) == ["diamond", "diamond-open"]


def test_published_figures_stand_apart_from_ours():
    theirs = pd.DataFrame({"x": ["a, b", "c"], "series": "max", "value": [50.0, 60]})
    ours = pd.DataFrame({"x": ["c"], "series": "mean", "value": [0.5], "low": [0.4], "high": [0.6]})
    fig = beside(
        "T", Panel(theirs, "Published, X", "%", ""), Panel(ours, "Measured here", "recall", "")
    )
    assert fig.data[0].marker.symbol == "circle-open"
    assert fig.data[1].marker.symbol == "diamond"  # a series keeps its mark in both panels
    assert fig.data[1].error_y.array[0] == pytest.approx(0.1)
    assert list(fig.layout.xaxis.ticktext) == ["a<br>b", "c"]
    heads = " ".join(texts(fig))
    assert "Published, X" in heads
    assert "Measured here" in heads
    empty = beside("T", Panel(theirs, "P", "%", ""), Panel(ours.head(0), "M", "", "", "no arm"))
    assert "no arm" in texts(empty)


def test_round_ticks_have_no_leading_zero():
    ticks = round_ticks(-0.1, 0.42, 6)
    assert ticks["ticktext"] == ["−.1", "0", ".1", ".2", ".3", ".4"]
    assert round_ticks(1.87, 2.31, 4)["ticktext"] == ["2", "2.2"]


def test_every_figure_draws_both_looks_and_empty_frames(trace):
    nothing = pd.DataFrame()
    for look in (LIGHT, DARK):
        fig = timeline(
            frames.segments(trace),
            events=[e["seen"] for e in trace["events"]],
            chosen=0,
            marks=frames.spans(trace),
            look=look,
        )
        assert fig.layout.template.layout.font.color == look.ink2
    assert timeline(frames.segments({}), events=[], chosen=None)
    assert regret(nothing, subtitle="")
    assert retention(nothing, subtitle="")
    assert restored(nothing)
    assert likelihood(nothing, label="a")
    assert held_bytes(nothing, label="a")
    assert coverage(nothing, own="")
    assert distances(nothing, subtitle="")
    assert held(nothing)
    assert latency(nothing)
    assert pareto(nothing, None, measure="nll")


def test_of_very_many_events_the_chosen_one_alone_has_a_line():
    frame = pd.DataFrame({"position": range(80), "text": "a", "mass": 0.1})
    fig = regret(frame, subtitle="", events=range(10, 75), chosen=4)
    assert [s.x0 for s in fig.layout.shapes] == [14]
