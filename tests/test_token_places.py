"""The same token at another phase: copies are aligned by the prompt's own tokens."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fake_client import FakeClient
from test_app import client, html, page, preset  # noqa: F401  (client is a fixture)

from app import frames
from app.figures.likely import likely, width_of
from engine.copies import LogicalSample, Slot, phase_copies

OWN = ("My", " gate", " is", " 4", "7", ".", " It", " is", " gate")


def sample(slots: dict[str, int], index: int = 0, own: tuple[str, ...] = OWN) -> LogicalSample:
    roles = ["target" if i in (3, 4) else "text" for i in range(len(own))]
    return LogicalSample(
        index=index,
        tokens=tuple(range(len(own))),
        roles=tuple(roles),
        target=(3, 5),
        answer=(50,),
        rivals=(),
        rival_texts=(),
        answer_text=" 47",
        slots=tuple(Slot(name, at) for name, at in slots.items()),
        filler=99,
        context_end=6,
    )


def rows_of(copies, own: tuple[str, ...] = OWN) -> pd.DataFrame:
    """As they are stored: none for position 0, and a token's own number as its log-probability."""
    rows = []
    for copy in copies:
        tokens, roles = (*copy.tokens, 50), (*copy.roles, "answer")
        for at in range(1, len(tokens)):
            token = tokens[at]
            told = own[token] if token < len(own) else "=" if token == 99 else " 47"
            rows.append(
                {"shift": copy.shift, "residue": copy.residue, "position": at, "text": told}
                | {"role": roles[at], "logprob": -float(token)}
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(
    ("protocol", "slots"),
    [
        ("lengthen", {"pad": 0}),
        ("lengthen", {"pad": 2}),
        ("outer", {"front": 0, "back": 6}),
        ("in_sequence", {"before": 1, "after": 6}),
        ("grid_origin", {}),
    ],
)
def test_a_token_is_compared_with_itself_wherever_padding_stands(protocol, slots, index):
    rows = rows_of(phase_copies(sample(slots, index), protocol, 4))
    opens = 0 in slots.values()
    for first, second in ((0, 1), (2, 3), (3, 0)):
        frame = frames.difference(rows, 4, first, second, protocol, opens)
        assert np.allclose(frame["difference"], 0)
        assert set(OWN[1:]) | {" 47"} <= set(frame["text"])
        own = [*OWN, " 47"]
        assert [own[i] for i in frame["index"]] == frame["text"].tolist()
        assert frame["position"].is_monotonic_increasing  # of one copy, in its order


def test_positions_are_of_one_copy_that_holds_the_first_token_too():
    rows = rows_of(phase_copies(sample({"pad": 0}), "lengthen", 8))
    frame = frames.difference(rows, 4, 3, 2, "lengthen", True)
    assert frame["text"].tolist() == [*OWN, " 47"]
    assert frame["position"].tolist() == list(range(4, 14))


def test_two_documents_are_aligned_behind_the_word_in_front():
    other = ("Okay", " my", *OWN[1:])
    first = rows_of(phase_copies(sample({}), "grid_origin", 4)[:1])
    second = rows_of(phase_copies(sample({}, own=other), "grid_origin", 4)[:1], other)
    both = [rows.assign(shift=n, residue=n) for n, rows in enumerate((first, second))]
    frame = frames.difference(pd.concat(both), 2, 0, 1, "pair")
    assert frame["text"].tolist() == [*OWN[1:], " 47"]
    assert frame["difference"].tolist() == [1.0] * 8 + [0.0]  # their numbers differ by one


def test_two_documents_share_what_a_chat_template_puts_in_front():
    own, other = ("<s>", "user", ":", "The", " fact", "?"), ("<s>", "user", ":", "Okay", " the")
    other = (*other, " fact", "?")
    rows = [
        {"shift": n, "residue": n, "position": at, "text": words[at], "role": "text"}
        | {"logprob": -1.0 - n}
        for n, words in enumerate((own, other))
        for at in range(1, len(words))
    ]
    frame = frames.difference(pd.DataFrame(rows), 2, 0, 1, "pair")
    assert frame["text"].tolist() == ["user", ":", " fact", "?"]


def test_copies_laid_out_anew_are_aligned_by_what_stands_in_them():
    """A record that moves past another one, among fillers that are not the same."""
    layouts = (("a", "1", "f", "k", "v", "q"), ("f", "g", "k", "v", "a", "1", "q"))
    roles = {"k": "target", "v": "target", "a": "record", "1": "record", "q": "query"}
    rows = [
        {"shift": n, "residue": n, "position": at + 1, "text": word}
        | {"role": roles.get(word, "filler"), "logprob": -float(ord(word)) - n}
        for n, words in enumerate(layouts)
        for at, word in enumerate(words)
    ]
    frame = frames.difference(pd.DataFrame(rows), 2, 0, 1, "in_sequence")
    assert frame["text"].tolist() == ["a", "1", "k", "v", "q"]
    assert np.allclose(frame["difference"], 1.0)


@pytest.mark.parametrize(("phase", "padded"), [("0", False), ("1", True)])
def test_the_first_query_of_a_map_is_padding_where_padding_opens_the_copy(
    client,  # noqa: F811
    monkeypatch,
    phase,
    padded,
):
    whole = FakeClient.tokens

    def stored(self, key, sample=None, shift=None, control=False):
        """In the first copy the prompt's own first token stands at position 0, in no row."""
        rows = whole(self, key, sample, shift, control)
        return rows[(rows["shift"] > 0) | (rows["position"] > 1)]

    monkeypatch.setattr(FakeClient, "tokens", stored)
    at = page("explore", key=preset(client), at=phase, cq="0", ck="0")
    at.session_state["tab"] = "Attention"
    at.session_state["at"] = int(phase)
    at.run()
    cell = next(b for b in html(at).split("<p ") if "data-cell" in b)
    assert "Query 0 “" in cell
    assert ("Query 0 “=”" in cell) == padded


HUGE = ["inf", "1e999", "9" * 400, "9" * 5000, "-3", "²"]


@pytest.mark.parametrize("given", HUGE)
def test_a_number_in_a_link_that_none_can_be_made_of_is_left_out(client, given):  # noqa: F811
    at = page("explore", key=preset(client), tab="Top tokens", sample=given)
    assert "could not be drawn" not in html(at)
    assert at.number_input(key="sample").value == 1
    assert "sample" not in at.query_params
    at = page("explore", key=preset(client), tab="Attention", cq=given, ck=given)
    assert "could not be drawn" not in html(at)
    assert at.selectbox(key="cq").value is None


def test_a_number_in_a_link_that_fits_is_kept(client):  # noqa: F811
    at = page("explore", key=preset(client), tab="Top tokens", sample="3")
    assert at.number_input(key="sample").value == 3


def test_the_table_of_likeliest_tokens_is_a_picture_too(client):  # noqa: F811
    at = page("explore", key=preset(client), tab="Top tokens")
    keys = {button.key for button in at.get("download_button")}
    assert {f"{form}-top-tokens" for form in ("png", "svg", "csv")} <= keys


def test_likeliest_tokens_stand_by_rank_and_phase_with_their_text_literally():
    frame = pd.DataFrame(
        [(0, 1, "<b>", 0.9), (0, 2, "$x$", 0.05), (2, 1, "4", 0.5)],
        columns=["phase", "place", "token", "probability"],
    )
    groups = [(0, "phase 0"), (2, "phase 2")]
    fig = likely(frame, groups, title="Likeliest answers by phase")
    (drawn,) = fig.data
    assert drawn.text[0].tolist() == ["&lt;b&gt;&nbsp; .900", "4&nbsp; .500"]
    assert drawn.text[1].tolist() == ["&#36;x&#36;&nbsp; .050", ""]
    assert np.isnan(drawn.z[1][1])
    assert list(fig.layout.xaxis.ticktext) == ["phase 0", "phase 2"]
    assert width_of(groups) < width_of([(p, "") for p in range(16)])
    assert not likely(frame.head(0), [], title="t").data
