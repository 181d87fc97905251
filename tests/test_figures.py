"""Figures as a reader sees them: what is drawn, where, in which role's colour.

Each figure has one golden JSON without its template; `UPDATE_GOLDEN=1` rewrites them.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.figures.attention import attention
from app.figures.curve import phase_curve
from app.figures.difference import token_difference
from app.figures.folded import by_residue, folded
from app.figures.layers import layer_scan
from app.figures.spectrum import autocorrelation, spectrum
from app.figures.theme import DARK, LIGHT, end_labels, start, token_label
from app.figures.thumbnails import dots, sparkline

GOLDEN = Path(__file__).with_name("golden")
VALUES = [
    0.31,
    0.45,
    0.88,
    0.57,
    0.25,
    0.44,
    0.74,
    0.54,
    0.26,
    0.46,
    0.8,
    0.63,
    0.38,
    0.48,
    0.69,
    0.67,
]


def gold(n: int = 16) -> pd.DataFrame:
    x = np.arange(n)
    value = np.array(VALUES[:n])
    return pd.DataFrame(
        {
            "x": x,
            "value": value,
            "low": value - 0.05,
            "high": value + 0.05,
            "phase": x % 4,
            "position": 40 + x,
        }
    )


def control(n: int = 16) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(n), "value": np.full(n, 0.81)})


def rivals(name: str = "32", n: int = 16) -> pd.DataFrame:
    return pd.DataFrame({"name": name, "x": np.arange(n), "value": 0.9 - np.array(VALUES[:n])})


def curve(**changes):
    options = dict(axis="shift", count=16, stride=4, control=control(), rivals=rivals(), answer="8")
    return phase_curve(gold(), **(options | changes))


def fold_frame() -> pd.DataFrame:
    value = np.array([0.3, 0.45, 0.78, 0.6])
    return pd.DataFrame(
        {"phase": range(4), "value": value, "low": value - 0.05, "high": value + 0.05}
    )


def spectrum_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "period": [16, 8, 5.333, 4, 3.2, 2.667, 2.286, 2],
            "share": [0.01, 0.01, 0, 0.92, 0.03, 0.02, 0.01, 0],
        }
    )


def scan_frame() -> pd.DataFrame:
    value = np.array([0.8, 0.78, 0.4, 0.79])
    return pd.DataFrame(
        {"layer": range(4), "value": value, "low": value - 0.1, "high": value + 0.1}
    )


def difference_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "index": [1, 2, 3],
            "text": ["The", " <b>", "8"],
            "role": ["text", "text", "answer"],
            "position": [1, 2, 3],
            "phase": [1, 2, 3],
            "difference": [0.1, -0.2, 1.5],
        }
    )


def heat(**changes):
    cells = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], np.float32)
    options = dict(title="Attention, layer 4, head 0", subtitle="1 exact token")
    return attention(cells, ["a", "b"], ["k", "0–3", "4–7"], **(options | changes))


FIGURES = {
    "curve": curve,
    "folded": lambda: folded(
        fold_frame(), stride=4, control=pd.DataFrame({"phase": range(4), "value": 0.8})
    ),
    "residue": lambda: by_residue(
        pd.DataFrame({"residue": range(8), "accuracy": 0.5, "low": 0.3, "high": 0.7, "n": 12}),
        modulus=8,
        stride=4,
    ),
    "spectrum": lambda: spectrum(spectrum_frame(), configured=4, detected=4, chance=0.125),
    "autocorrelation": lambda: autocorrelation(
        pd.DataFrame({"lag": range(9), "correlation": [1, 0, -0.5, 0, 0.9, 0, -0.5, 0, 0.9]}),
        configured=4,
    ),
    "layers": lambda: layer_scan(scan_frame(), control=0.81, keep=[2]),
    "difference": lambda: token_difference(difference_frame(), first=2, second=0, stride=4),
    "attention": heat,
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_as_it_was(name):
    content = json.loads(FIGURES[name]().to_json())
    content["layout"].pop("template")
    file = GOLDEN / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(
            json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8"
        )
    assert content == json.loads(file.read_text("utf-8"))


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_within_its_budget(name):
    assert len(FIGURES[name]().to_json()) < 3_000_000


def traces(fig, name):
    return [t for t in fig.data if (t.name or "").startswith(name)]


def test_curve_draws_gold_control_rival_in_their_colours():
    fig = curve()
    (line,) = traces(fig, "gold")
    assert list(line.y) == VALUES
    assert line.line.color == LIGHT.gold
    assert traces(fig, "full cache")[0].line.color == LIGHT.control
    (rival,) = traces(fig, "rival")
    assert rival.line.color == LIGHT.rival
    assert rival.line.dash


def test_curve_names_stand_at_the_lines_end_and_do_not_touch():
    marks = [a for a in curve().layout.annotations if a.xshift]
    assert [a.text for a in sorted(marks, key=lambda a: a.y)] == [
        "rival&nbsp; 32",
        "<b>gold</b>&nbsp; 8",
        "full cache",
    ]
    heights = sorted(a.y for a in marks)
    assert all(b - a >= 0.08 for a, b in pairwise(heights))


def test_names_are_moved_apart_but_stay_in_the_chart():
    fig = start(LIGHT, "t", "s")
    end_labels(fig, 15, [(0.99, "a", "#000000"), (1.0, "b", "#000000"), (0.98, "c", "#000000")])
    heights = sorted(a.y for a in fig.layout.annotations)
    assert heights[-1] <= 1.0
    assert min(np.diff(heights)) >= 0.084


@pytest.mark.parametrize(
    ("first", "edges"), [(0, [(-0.5, 3.5), (7.5, 11.5)]), (1, [(0.5, 4.5), (8.5, 12.5)])]
)
def test_bands_cover_every_second_stride(first, edges):
    shapes = curve(first=first).layout.shapes
    assert [(s.x0, s.x1) for s in shapes] == edges
    assert all(s.layer == "below" and s.line.width == 0 for s in shapes)


def test_no_bands_without_a_grid():
    assert not curve(stride=None).layout.shapes
    assert not curve(stride=1).layout.shapes


def test_interval_is_a_ribbon_only_where_it_is_known():
    assert traces(curve(), "95 %")[0].fill == "toself"
    bare = phase_curve(
        gold().drop(columns=["low", "high"]), axis="shift", count=16, stride=4, samples=3
    )
    assert not traces(bare, "95 %")
    assert "3 prompts</span>" in bare.layout.title.text
    options = dict(axis="shift", count=16, stride=4, samples=1, running=True)
    assert "1 prompt so far" in phase_curve(gold()[["x", "value"]], **options).layout.title.text


def test_a_rival_read_by_its_first_token_says_so_wherever_it_is_named():
    fig = curve(rivals=rivals("12C"), first_token=True)
    (line,) = traces(fig, "rival")
    assert line.name == "rival 12C, first token"
    assert "rival&nbsp; 12C, first token" in [a.text for a in fig.layout.annotations]
    assert "Rivals: first token alone" in fig.layout.title.text
    assert "first token" not in curve(rivals=rivals("12C")).to_json()


def test_what_is_not_measured_is_told_in_words_and_one_prompt_is_one():
    empty = folded(fold_frame().head(0), stride=4)
    assert [a.text for a in empty.layout.annotations] == ["Not measured yet"]
    for fig in (
        spectrum(spectrum_frame().head(0), configured=4, detected=None, chance=None),
        autocorrelation(pd.DataFrame({"lag": [], "correlation": []}), configured=4),
    ):
        assert [a.text for a in fig.layout.annotations] == ["Known once a run has ended"]
    one = pd.DataFrame({"residue": [0], "accuracy": [1.0], "low": [0.2], "high": [1.0], "n": [1]})
    assert "1 prompt a residue" in by_residue(one, modulus=1, stride=None).layout.title.text


def test_marks_at_zero_stand_whole_over_the_axis():
    dots = pd.DataFrame({"phase": [0, 0], "value": [0.0, 0.0]})
    for fig in (curve(), folded(fold_frame(), stride=4, dots=dots), FIGURES["residue"]()):
        marked = [t for t in fig.data if t.mode and "markers" in t.mode]
        assert all(t.cliponaxis is False for t in marked)
        assert fig.layout.xaxis.layer == "below traces"


def test_hover_tells_position_and_phase():
    (line,) = traces(curve(), "gold")
    assert line.text[5] == "shift 5, t mod 4 = 1, target at position 45, .39 to .49"


def test_empty_curve_says_so():
    fig = phase_curve(gold(0), axis="shift", count=16, stride=4)
    assert [a.text for a in fig.layout.annotations] == ["No copies measured yet"]


def test_probability_axes_share_one_scale():
    for name in ("curve", "folded", "residue", "spectrum", "layers"):
        axis = FIGURES[name]().layout.yaxis
        assert tuple(axis.range) == (0, 1.02)
        assert list(axis.ticktext) == ["0", ".25", ".50", ".75", "1"]


def test_fold_marks_worst_and_best():
    texts = [a.text for a in FIGURES["folded"]().layout.annotations]
    assert texts == ["<b>.30</b>", "<b>.78</b>"]


def test_spectrum_marks_the_configured_period_and_the_chance():
    fig = FIGURES["spectrum"]()
    assert [a.text for a in fig.layout.annotations] == ["<b>S = 4</b>", "no period"]
    colours = fig.data[0].marker.color
    assert [c == LIGHT.memory for c in colours] == [p == 4 for p in spectrum_frame()["period"]]


def test_spectrum_tells_a_detected_period_that_is_not_configured():
    fig = spectrum(spectrum_frame(), configured=8, detected=4, chance=0.1)
    assert {a.text for a in fig.layout.annotations} >= {"<b>S = 8</b>", "<b>found 4</b>"}


def test_a_long_spectrum_keeps_the_configured_period():
    periods = 1024 / np.arange(1, 513)
    frame = pd.DataFrame({"period": periods, "share": np.linspace(0, 0.01, 512)})
    fig = spectrum(frame, configured=256, detected=None, chance=0.002)
    assert len(fig.data[0].y) <= 25
    assert "<b>S = 256</b>" in [a.text for a in fig.layout.annotations]


def test_autocorrelation_marks_the_multiples_of_the_stride():
    colours = FIGURES["autocorrelation"]().data[0].marker.color
    assert [lag for lag, colour in enumerate(colours) if colour == LIGHT.memory] == [4, 8]


def test_layers_that_cost_most_are_filled():
    colours = FIGURES["layers"]().data[0].marker.color
    assert [c == LIGHT.memory for c in colours] == [False, False, True, False]


def test_difference_shows_token_text_literally():
    text = FIGURES["difference"]().data[0].text
    assert "&lt;b&gt;" in text[1]
    assert "<b>" not in text[1]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<img src=x>", "&lt;img·src=x&gt;"),
        ("$\\alpha$", "&#36;\\alpha&#36;"),
        ("\u200d", "⟨ZWJ⟩"),
        ("\u200f", "⟨RLM⟩"),
        ('"', '"'),
        ("\n", "↵"),
        ("", "∅"),
    ],
)
def test_labels_are_literal(raw, shown):
    assert token_label(raw) == shown


def test_attention_outlines_the_chosen_cell_and_keeps_the_weights():
    fig = heat(chosen=(1, 2))
    box = fig.layout.shapes[-1]
    assert (box.x0, box.x1, box.y0, box.y1) == (1.5, 2.5, 0.5, 1.5)
    assert fig.data[0].z[1][2] == np.float32(0.7)
    assert list(fig.data[0].text[1]) == [".100", ".200", ".700"]
    named = heat(names=(["1 “<b>”", "2 “x”"], ["0 “a”", "window 1 to 4", "window 1 to 4"]))
    assert named.data[0].y == ("1 “&lt;b&gt;”", "2 “x”")
    assert named.data[0].x == ("0 “a”", "window 1 to 4, number 1", "window 1 to 4, number 2")
    assert "query %{y}, key %{x}<br>weight %{text}" in named.data[0].hovertemplate
    assert fig.layout.yaxis.autorange == "reversed"


def test_attention_refuses_more_cells_than_a_page_bears():
    with pytest.raises(ValueError, match="512"):
        attention(np.zeros((513, 4), np.float32), ["q"] * 513, ["k"] * 4, title="t", subtitle="s")
    full = attention(
        np.random.default_rng(0).random((512, 512)).astype("f4"),
        ["q"] * 512,
        ["k"] * 512,
        title="t",
        subtitle="s",
    )
    assert len(full.to_json()) < 3_000_000


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_and_texts_have_contrast(look):
    def ratio(colour):
        high, low = sorted((luminance(colour), luminance(look.page)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    assert all(ratio(c) >= 2.95 for c in (look.gold, look.rival, look.control, look.memory))
    texts = (look.ink, look.ink2, look.ink3, look.gold_text, look.rival_text, look.memory_text)
    assert all(ratio(c) >= 4.5 for c in texts)


def test_dark_figures_use_the_dark_roles():
    fig = curve(look=DARK)
    assert traces(fig, "gold")[0].line.color == DARK.gold
    assert fig.layout.template.layout.hoverlabel.bgcolor == DARK.raised


def svg(address: str) -> str:
    return b64decode(address.removeprefix("data:image/svg+xml;base64,")).decode()


def test_thumbnail_holds_bands_control_and_curve():
    drawn = svg(sparkline(VALUES, [0.8] * 16, stride=4))
    assert drawn.count("<rect") == 2
    assert drawn.count("<polyline") == 2
    assert drawn.index(LIGHT.control) < drawn.index(LIGHT.gold)


def test_thumbnail_breaks_where_a_value_is_missing():
    assert svg(sparkline([0.1, 0.2, None, 0.4, 0.5])).count("<polyline") == 2
    assert "<polyline" not in svg(sparkline([]))


def test_a_dot_a_method_stands_by_its_loss_and_the_full_cache_is_a_line():
    svg = b64decode(dots([2.0, 2.5, 4.0]).split(",")[1]).decode()
    places = [float(p) for p in re.findall(r'circle cx="([\d.]+)"', svg)]
    assert len(places) == 2
    full = float(re.search(r'line x1="([\d.]+)"', svg).group(1))
    assert (places[0] - full) / (places[1] - full) == pytest.approx(0.25, abs=1e-3)
    assert b64decode(dots([2.0, 2.0]).split(",")[1])  # no spread divides by nothing
