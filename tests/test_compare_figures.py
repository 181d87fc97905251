"""Figures of the Compare page: every run is there, on the axes that all share, with its numbers."""

from __future__ import annotations

import copy
import json
import re

import numpy as np
import pandas as pd
import pytest
from fake_compare import FakeCompare

from app import services
from app.compare import claims, frames, table
from app.compare.address import Asked
from app.compare.below import untold
from app.compare.subject import Subject
from app.figures import compare as figures
from app.figures.compare_maps import Cells, maps, timelines
from app.figures.paired import differences
from app.figures.pareto import against_bytes, round_bytes
from app.figures.theme import DARK, LIGHT

PARTS = ("residues", "folded", "spectrum")


@pytest.fixture(scope="module")
def client():
    return FakeCompare(wild=True)


@pytest.fixture(scope="module")
def eight(client):
    return subject(client, client.eight())


def subject(client: FakeCompare, keys: list[str], base: str | None = None) -> Subject:
    return Subject(Asked(tuple(keys), base or ""), client.compare(keys, base), ())


def drawn(name: str, told: Subject, look=LIGHT):
    make = {"residues": figures.curves, "folded": figures.folds, "spectrum": figures.spectra}
    more = {} if name == "spectrum" else {"control": frames.rows(told.base, name)}
    return make[name](frames.panels(told, name, look), look=look, **more)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_all_runs_stand_on_axes_that_zoom_together(eight, part, look):
    fig = drawn(part, eight, look)
    names = [name for name in fig.layout.to_plotly_json() if name.startswith("xaxis")]
    assert len(names) == len(eight.others) == 8
    assert {fig.layout[name].matches for name in names} == {None, "x"}
    assert not any(fig.layout[name].fixedrange for name in names)
    assert len({tuple(fig.layout[name].range) for name in names}) == 1
    used = {trace.xaxis for trace in fig.data}
    assert used == {"x", *(f"x{i}" for i in range(2, 9))}
    words = " ".join(a.text for a in fig.layout.annotations)
    for run in eight.others:
        assert run["name"].split(",")[0] in words


def test_panels_do_not_overlap(eight):
    fig = drawn("residues", eight)
    boxes = []
    for i in range(8):
        name = "" if i == 0 else str(i + 1)
        boxes.append((*fig.layout[f"xaxis{name}"].domain, *fig.layout[f"yaxis{name}"].domain))
    for k, (a, b, c, d) in enumerate(boxes):
        assert 0 <= a < b <= 1
        assert 0 <= c < d <= 1
        for e, f, g, h in boxes[k + 1 :]:
            assert b <= e or f <= a or d <= g or h <= c


def test_text_of_users_is_shown_literally(eight):
    whole = drawn("residues", eight).to_json()
    assert "<b>$x$" not in json.loads(whole)["layout"]["annotations"][0]["text"]
    assert "&lt;b&gt;&#36;x&#36;" in json.loads(whole)["layout"]["annotations"][0]["text"]
    fig = against_bytes(frames.sizes(eight, LIGHT))
    assert all("<b>$" not in (a.text or "") for a in fig.layout.annotations)


def test_the_baseline_is_grey_and_behind_and_colours_follow_the_order(eight):
    fig = drawn("residues", eight)
    behind = [t for t in fig.data if t.name == "baseline"]
    assert len(behind) == 8
    marks = [eight.mark(run, LIGHT) for run in eight.runs]
    assert marks[0].colour == LIGHT.control
    assert len({(m.colour, m.symbol) for m in marks[1:]}) == 8
    assert [m.colour for m in marks[1:4]] == ["#0072B2", "#8A3A70", "#D55E00"]


def test_an_empty_panel_says_why_and_keeps_its_place(client):
    key = client.add_sweep(status="queued", memory={"window": 20, "stride": 4})
    other = client.eight()[0]
    told = subject(client, [other, key])
    for run in told.told["runs"]:
        if run["key"] == key:
            run |= {"residues": [], "folded": [], "spectrum": []}
    fig = drawn("residues", told)
    assert "waiting for the worker" in [a.text for a in fig.layout.annotations]
    assert {t.xaxis for t in fig.data} == {"x", "x2"}
    assert fig.layout.height == drawn("residues", subject(client, [other])).layout.height


def test_differences_have_their_numbers_in_two_columns(eight):
    frame = frames.paired(frames.differences(eight, ("mean", "worst", "gap"), LIGHT))
    assert len(frame) == 24
    fig = differences(frame, title="From <i>", subtitle="", unit="difference")
    right = [a for a in fig.layout.annotations if a.xanchor == "right"]
    assert len(right) == 2 * 24
    assert len({a.xshift for a in right}) == 2
    assert sum(bool(re.fullmatch(r"−?\.?\d+ to −?\.?\d+", a.text)) for a in right) == 24
    assert "&lt;i&gt;" in fig.layout.title.text
    assert len(fig.data) == frame["colour"].nunique()
    drawn = sorted(x for t in fig.data for x in t.x)
    assert drawn == pytest.approx(sorted(frame["diff"]))
    hollow = [colour for t in fig.data for colour in t.marker.color if colour == LIGHT.page]
    assert len(hollow) == int((frame["p_adjusted"] >= 0.05).sum())
    ends = [x + up for t in fig.data for x, up in zip(t.x, t.error_x.array, strict=True)]
    assert sorted(ends) == pytest.approx(sorted(frame["high"]))


def test_differences_that_are_not_paired_are_told_not_drawn(client):
    key = client.eight()[0]
    told = subject(client, [key, client.stored], key)
    frame = frames.differences(told, ("mean", "worst", "gap"), LIGHT)
    assert not len(frames.paired(frame))
    (said,) = frames.unpaired(told, frame)
    assert "Not paired: beacon 128" in said
    fig = differences(frames.paired(frame), title="", subtitle="", unit="")
    assert "No run shares prompts" in fig.layout.annotations[0].text


def test_pareto_has_a_hollow_mean_a_solid_worst_and_the_gap_between(eight):
    frame = frames.sizes(eight, LIGHT)
    fig = against_bytes(frame)
    assert fig.layout.xaxis.type == "log"
    dots = [t for t in fig.data if t.mode == "markers"]
    lines = [t for t in fig.data if t.mode == "lines"]
    assert len(dots) == 2 * len(frame) == 18
    assert len(lines) == 9
    assert {t.customdata[0][0] for t in dots} == {run["key"] for run in eight.runs}
    first = [t for t in dots if t.customdata[0][0] == eight.others[0]["key"]]
    assert [t.marker.color for t in first] == [
        LIGHT.page,
        eight.mark(eight.others[0], LIGHT).colour,
    ]
    assert list(lines[1].y) == [first[0].y[0], first[1].y[0]]


def test_pareto_without_sizes_says_so():
    columns = ["key", "name", "bytes", "mean", "worst", "colour", "text", "symbol"]
    fig = against_bytes(pd.DataFrame(columns=columns))
    assert fig.layout.annotations[0].text == "No run has a size yet"


def test_ticks_of_bytes_are_round():
    assert round_bytes(14, 300) == [16, 32, 64, 128, 256]
    assert len(round_bytes(1, 9999)) <= 8
    assert round_bytes(130, 190) == [150.0]
    assert round_bytes(12e3, 60e3) == [15e3, 20e3, 30e3, 40e3, 50e3, 60e3]


def test_maps_stand_on_positions_with_one_scale(eight):
    panels = [p._replace(numbers=()) for p in frames.panels(eight, "residues", LIGHT)[:3]]
    weights = np.eye(4, dtype=np.float32)
    edges = np.array([-0.5, 0.5, 4.5, 8.5, 12.5])
    fig = maps(panels, [Cells(weights, edges, edges), None, Cells(weights / 2, edges, edges)])
    assert [t.type for t in fig.data if t.type == "heatmap"] == ["heatmap"] * 2
    assert all(t.coloraxis == "coloraxis" for t in fig.data if t.type == "heatmap")
    assert fig.layout.coloraxis.cmax == 1
    assert tuple(fig.layout.yaxis.range) == (12.5, -0.5)


def test_a_large_map_is_made_coarse_and_loses_no_peak():
    cells = np.zeros((500, 300), np.float32)
    cells[333, 222] = 0.7
    small, down, across = frames.coarse(cells)
    assert small.shape == (125, 100)
    assert (down, across) == (4, 3)
    assert small[333 // 4, 222 // 3] == np.float32(0.7)
    ranges = [(i, i + 1) for i in range(500)]
    borders = frames.edges(ranges, down)
    assert len(borders) == 126
    assert (np.diff(borders) > 0).all()
    overlapping = frames.edges([(0, 8), (0, 8), (4, 12)], 1)
    assert (np.diff(overlapping) > 0).all()


def test_timelines_share_both_axes():
    frame = pd.DataFrame(
        {"position": [0, 1], "text": ["<b>", "b"], "state": ["present", "evicted"]}
        | {"start": [0, 4], "stop": [9, 9]}
    )
    panel = figures.Panel("<a>", "", figures.Mark("#0072B2", "#005E93", "circle"), (), frame)
    fig = timelines([panel, panel], [[4], [4]])
    assert fig.layout.xaxis2.matches == "x"
    assert fig.layout.yaxis2.matches == "y"
    assert len(fig.layout.shapes) == 2
    assert all("<b>" not in str(t.customdata) for t in fig.data)


def test_the_table_pins_the_baseline_and_hides_what_is_equal(eight):
    short = table.table(eight, LIGHT, every=False, progress={})
    whole = table.table(eight, LIGHT, every=True, progress={})
    assert short.index("Full cache") < short.index("W4 S4")
    assert "Window W" in short
    assert "Task" not in short
    assert "access code" in whole
    assert "<b>$x$" not in short
    assert "&lt;b&gt;$x$" in short
    assert "Bytes per token" in short
    assert re.search(r"<b>\.\d{3}</b><i>−\.\d{3}</i>", short)


def test_progress_stands_under_the_name(client):
    key = client.add_sweep(status="running", memory={"window": 10, "stride": 2})
    told = subject(client, [client.eight()[0], key])
    body = table.table(
        told,
        LIGHT,
        every=False,
        progress={key: {"done": 60, "total": 192, "seconds_left": 24.0}},
    )
    assert "60 of 192 copies, 24\u00a0s left" in body


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (0.5, ".5"),
        ([1, 2], "1, 2"),
        ({}, "–"),
        ("x" * 50, "x" * 39 + "…"),
        (-4, "−4"),
    ],
)
def test_settings_read_as_a_reader_sees_them(told, shown):
    assert table.value(told) == shown


def test_names_of_choices_are_the_forms_words():
    row = {"field": "protocol", "label": "Padding", "values": ["in_sequence", "outer", None]}
    assert ">in sequence<" in table._settings(row)
    shown = table._settings({"field": "memory.gate", "label": "Gate", "values": ["onehot"]})
    assert ">one-hot<" in shown
    assert ">joint probability<" in table._settings(row | {"field": "measure", "values": ["joint"]})
    own = {"field": "task.answer", "label": "Answer", "values": ["in_sequence"]}
    assert ">in_sequence<" in table._settings(own)


def test_differences_that_are_not_the_tables_say_why(eight):
    told = copy.deepcopy(eight.told)
    assert claims.folding(Subject(eight.asked, told, ())) == ""
    numbers = {run["key"]: run["numbers"] for run in told["runs"]}
    for measure in told["measures"]:
        for row in measure["rows"]:
            row["value"] = numbers[row["key"]].get(measure["name"])
            row["base_value"] = told["runs"][0]["numbers"].get(measure["name"])
    same = Subject(eight.asked, told, ())
    assert claims.folding(same) == ""
    told["measures"][1]["rows"][0]["base_value"] += 0.01
    assert "the full cache is folded to the stride of the run beside it" in claims.folding(same)
    frame = frames.paired(frames.differences(same, ("worst",), LIGHT))
    fig = differences(frame, title="", subtitle="", unit="")
    assert any("folded alike" in str(trace.customdata) for trace in fig.data)
    told["measures"][0]["rows"][0]["base_value"] += 0.01
    assert claims.folding(same).startswith("Over the prompts that both runs have")


def test_a_reason_that_the_head_gives_is_not_given_again(eight):
    told = eight.told | {"doubt": "Task a, and b in the baseline.", "warnings": ["X: no rows."]}
    said = Subject(eight.asked, told, ())
    notes = ["Not paired: A. Task a, and b in the baseline.", "Not paired: B. Other samples."]
    assert untold(said, notes) == notes[1:]


def test_headings_say_no_more_than_the_tests(eight):
    assert claims.charts(eight, "curves") == "All 8 repeat with their stride"
    assert claims.differences(eight).startswith("Against the full cache: all 8 below in the mean")
    assert claims.charts(eight, "spectra") == claims.PLAIN["spectra"]


def test_runs_of_one_reason_are_told_together(client):
    told = subject(client, [*client.eight()[:3], client.stored])
    assert told.apart("curve") == "beacon 128: a decode run has no phases."
    three = subject(client, client.eight()[:3])
    assert three.apart("timeline") == "Only decode runs keep a timeline."
    assert three.apart("curve") == ""


def test_numbers_of_two_measures_are_not_subtracted(eight):
    told = copy.deepcopy(eight.told)
    for run, measure in zip(told["runs"], ("accuracy", "accuracy", "joint"), strict=False):
        run["measure"] = measure
    mixed = Subject(eight.asked, told | {"runs": told["runs"][:3]}, ())
    body = table.table(mixed, LIGHT, every=False, progress={})
    (mean,) = re.findall(r'<tr><th scope="row">Mean</th>.*?</tr>', body)
    assert [bool(diff) for diff in re.findall(r"<i>(.*?)</i>", mean)] == [False, True, False]
    assert "Mean accuracy" not in body


def test_the_grey_line_is_of_the_same_copies_only_where_it_is(eight):
    assert "Grey: full cache on the same copies" in claims.note(eight, "curves")
    told = copy.deepcopy(eight.told)
    told["fields"].append({"field": "seed", "label": "Seed", "values": [], "differs": True})
    other = Subject(eight.asked, told, ())
    assert "Grey: full cache, of other copies than some" in claims.note(other, "curves")


def test_no_table_that_is_taken_away_holds_a_formula():
    frame = pd.DataFrame({"token": ["=1+1", "-x", " -y", "5"], "value": [-1.5, 2, 3, 4]})
    lines = services.csv(frame).decode().splitlines()
    assert lines == ["token,value", "'=1+1,-1.5", "'-x,2.0", " -y,3.0", "5,4.0"]


def test_a_table_to_take_away_keeps_short_numbers_short_and_has_no_formula_for_a_head():
    frame = pd.DataFrame({"logprob": np.float32([-0.1]), "=1+1": ["@x"]})
    assert services.csv(frame).decode().split() == ["logprob,'=1+1", "-0.1,'@x"]
