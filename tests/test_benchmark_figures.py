"""The Benchmark page's figures: what is drawn, where, and in which role's colour."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from app.figures.dots import cloud, followed, paired
from app.figures.learning import Lesson, learning
from app.figures.marks import COLOURS, SYMBOLS, TEXTS, mark, recoloured, swatch
from app.figures.panels import panel
from app.figures.residues import Line, by_residue
from app.figures.theme import DARK, LIGHT, PANEL
from app.figures.within import within


def frame(hole: float = 0.1) -> pd.DataFrame:
    value = np.where(np.arange(24) % 8 == 7, hole, 0.9)
    table = {"residue": np.arange(24.0), "value": value, "low": value - 0.05}
    return pd.DataFrame(table | {"high": value + 0.05})


def flat() -> pd.DataFrame:
    return pd.DataFrame({"residue": np.arange(24.0), "value": 0.95})


def folded() -> pd.DataFrame:
    value = np.array([0.9, 0.8, 0.95, 0.7, 0.9, 0.6, 0.85, 0.1])
    table = {"phase": np.arange(8.0), "value": value, "low": value - 0.02, "high": value + 0.02}
    return pd.DataFrame(table | {"n": 192.0})


def named(fig, name: str) -> list:
    return [t for t in fig.data if (t.name or "").startswith(name)]


def texts(fig) -> list[str]:
    return [a.text for a in fig.layout.annotations]


def test_panels_share_one_scale_and_one_axis():
    first = panel(frame(), modulus=24, stride=8, mark=mark(0), control=flat(), chance=1 / 64)
    second = panel(frame(0.5), modulus=24, stride=None, mark=mark(3))
    for fig in (first, second):
        assert tuple(fig.layout.yaxis.range) == (0, 1.02)
        assert tuple(fig.layout.xaxis.range) == (-0.5, 23.5)
        assert list(fig.layout.xaxis.tickvals) == [0, 6, 12, 18, 23]
        assert fig.layout.height == PANEL
    bands = [s for s in first.layout.shapes if s.type == "rect"]
    assert [(s.x0, s.x1) for s in bands] == [(-0.5, 7.5), (15.5, 23.5)]
    chance = next(s for s in first.layout.shapes if s.type == "line")
    assert chance.y0 == chance.y1 == 1 / 64
    assert named(first, "accuracy")[0].line.color == LIGHT.memory
    assert named(first, "full cache")[0].line.color == LIGHT.tint(LIGHT.control, 0.75)
    assert not [s for s in second.layout.shapes if s.type == "rect"]


def test_an_empty_panel_says_why_on_the_same_scale():
    fig = panel(frame().head(0), modulus=24, stride=8, mark=mark(0), note="not run yet")
    assert texts(fig) == ["not run yet"]
    assert tuple(fig.layout.yaxis.range) == (0, 1.02)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_twenty_five_memories_have_marks_of_their_own(look):
    marks = [mark(i, look) for i in range(25)]
    assert len({(m.colour, m.symbol) for m in marks}) == 25
    assert mark(None, look).colour == look.control
    assert marks[0].colour == look.memory
    assert [m.symbol for m in marks[:5]] == list(SYMBOLS)
    assert all(swatch(m).startswith("data:image/svg+xml;base64,") for m in marks)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_and_names_have_contrast(look):
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def ratio(colour: str) -> float:
        high, low = sorted((luminance(colour), luminance(look.page)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    assert all(ratio(c) >= 2.95 for c in COLOURS[look.name])
    assert all(ratio(c) >= 4.5 for c in TEXTS[look.name])


def test_recolouring_keeps_the_look():
    other = recoloured(DARK, mark(1, DARK))
    assert other.gold == COLOURS["dark"][1]
    assert other.page == DARK.page
    assert other.template.layout.font.color == DARK.ink2


def test_curves_carry_names_at_their_ends_and_the_boundary_its_label():
    lines = [Line("W8 S8", frame(), mark(0)), Line("<b>", frame(0.4), mark(1))]
    fig = by_residue(
        lines, title="t", subtitle="s", modulus=24, stride=8, control=flat(), boundary=True
    )
    assert {"W8 S8", "&lt;b&gt;", "full cache", "boundary"} <= set(texts(fig))
    ends = sorted(a.y for a in fig.layout.annotations if a.xanchor == "left")
    assert all(b - a >= 0.08 for a, b in pairwise(ends))
    colours = [t.line.color for t in fig.data if t.mode == "lines+markers"]
    assert colours == [mark(0).colour, mark(1).colour]


def test_within_and_boundary_are_two_things():
    fig = within(folded(), stride=8, mark=mark(0), windows=3)
    assert sorted(texts(fig)) == ["<b>boundary .10</b>", "<b>within .35</b>"]
    box = fig.layout.shapes[0]
    assert (box.x1, box.y0, box.y1) == (6.5, 0.6, 0.95)
    assert list(named(fig, "boundary")[0].x) == [7]
    assert named(fig, "boundary")[0].marker.color == LIGHT.page
    inside = within(folded(), stride=8, mark=mark(0), windows=3, boundary=False)
    assert not named(inside, "boundary")
    assert inside.layout.xaxis.range[1] == 6.5


def test_depth_tells_rank_correlation_and_p():
    points = pd.DataFrame({"x": [1.0, 2.0], "accuracy": [0.2, 0.9], "n": [8, 8]})
    fig = cloud(points, title="t", axis="tokens", rho=-0.034, p=0.88, mark=mark(0))
    assert "Rank correlation −.03, p = .88" in fig.layout.title.text
    assert tuple(fig.layout.yaxis.range) == (0, 1.02)


def test_found_period_beside_the_stride_and_none_where_there_is_none():
    rows = pd.DataFrame(
        {
            "label": ["W8 S4", "W8 S8"],
            "x": [4.0, 8.0],
            "detected": [np.nan, 8.0],
            "stride": [4.0, 8.0],
            "line": ["", ""],
            "colour": [mark(4).colour, mark(0).colour],
            "symbol": ["x", "circle"],
        }
    )
    fig = followed(rows, varied="stride S", title="t", subtitle="s")
    assert [list(t.y) for t in fig.data if t.name == "the stride"] == [[4, 8]]
    assert texts(fig) == ["W8 S4: none", "W8 S8"]
    assert {a.yanchor for a in fig.layout.annotations} == {"bottom"}
    close = pd.concat([rows, rows.assign(x=[4.5, 8.5])])
    anchors = {
        a.x: a.yanchor
        for a in followed(close, varied="W", title="t", subtitle="s").layout.annotations
    }
    assert anchors == {4: "bottom", 4.5: "top", 8: "bottom", 8.5: "top"}
    assert list(fig.layout.yaxis.ticktext) == ["none", "4", "8"]
    assert fig.data[1].marker.symbol == "x-open"


def test_pairs_stand_a_seed_and_without_is_grey():
    row = {"before": 0.1, "before_low": 0.05, "before_high": 0.2, "after": 0.6, "after_low": 0.5}
    row |= {"after_high": 0.7, "colour": mark(3).colour, "symbol": "square"}
    rows = pd.DataFrame([row | {"group": g, "seed": s} for g in ("a", "b") for s in range(3)])
    fig = paired(rows, title="Mean", subtitle="s")
    assert list(fig.layout.xaxis.ticktext) == ["0", "1", "2", "0", "1", "2"]
    assert texts(fig) == ["a", "b"]
    grey = [t for t in fig.data if t.marker.symbol == "circle-open"]
    assert len(grey) == 6
    assert {t.marker.color for t in grey} == {LIGHT.control}


def test_a_learning_curve_keeps_its_axis_and_names_what_ended_early():
    long = pd.DataFrame({"step": [100, 600], "loss": [3, 1], "accuracy": [0.1, 0.9]})
    short = pd.DataFrame({"step": [10, 40], "loss": [3, 3], "accuracy": [0.02, 0.03]})
    lessons = [Lesson("all", long, mark(1)), Lesson("40 steps", short, mark(2))]
    fig = learning(lessons, title="t", subtitle="s", steps=600)
    assert tuple(fig.layout.xaxis.range) == (0, 600)
    places = {a.text: a.x for a in fig.layout.annotations}
    assert places == {"all": 600, "40 steps<br>to step 40": 600}  # across no other line


def test_figures_of_the_page_draw_empty_frames():
    empty = frame().head(0)
    assert by_residue([Line("a", empty, mark(0))], title="", subtitle="", modulus=24, stride=8)
    assert within(folded().head(0), stride=8, mark=mark(0), windows=3)
    assert learning([], title="", subtitle="", steps=0)
