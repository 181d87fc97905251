"""The Library page and views on pages, through AppTest against a real store and service."""

from __future__ import annotations

import inprocess
import pytest
import streamlit
from inprocess import MAIN, html, opened
from streamlit.testing.v1 import AppTest
from test_views import add_run

from app import services_sharing
from engine.access import Access

WILD = "<img src=x onerror=alert(1)> **x** $\\alpha$ ‮"


@pytest.fixture
def engine(tmp_path):
    with inprocess.owner(tmp_path) as made:
        yield made


@pytest.fixture
def client(engine, monkeypatch):
    with inprocess.connected(engine, monkeypatch) as made:
        yield made


def test_an_empty_library_says_what_to_do(client):
    at = opened("library")
    assert "No run here yet" in html(at)
    assert "Save view on any page" in html(at)
    assert at.button(key="library-compare").disabled


def test_runs_and_views_stand_there_literally(client, engine):
    key = add_run(engine)
    engine.store.change(engine.store.runs_of(key)[0].id, title=WILD)
    engine.results.report(engine.store.runs_of(key)[0])
    client.save_view("explore", {"key": key}, WILD, note=WILD, tags=["a&b"])
    at = opened("library")
    body = html(at)
    assert "1 of 1 measured run loses a phase" in body
    assert "<img src=x onerror" not in body
    assert "&lt;img src=x onerror" in body
    shown = at.dataframe[0].value
    assert list(shown["name"]) == [WILD]
    assert shown["picture"][0].startswith("data:image/svg+xml")


def test_search_and_filters_come_from_the_address(client, engine):
    kept = add_run(engine)
    add_run(engine, samples=4)
    client.write_note(kept, 0, note="weak", tags=["control"])
    assert len(opened("library").dataframe[0].value) == 2
    assert len(opened("library", q="CONTROL").dataframe[0].value) == 1
    assert len(opened("library", tag="control").dataframe[0].value) == 1
    assert "No run fits" in html(opened("library", q="nothing like it"))


def test_filters_act_on_views_and_offer_their_tags(client, engine):
    key = add_run(engine)
    client.save_view("library", {"q": "a"}, "Old", tags=["mine"])
    client.save_view("explore", {"key": key}, "New")
    names = ("Old", "New")
    model = client.library()["runs"][0]["model"]
    expected = {("tag", "mine"): "Old", ("model", model): "New", ("kinds", "Eviction"): ""}
    for (name, value), shown in expected.items():
        at = opened("library", **{name: value})
        assert [n for n in names if n in linked(at)] == ([shown] if shown else [])
    for address in ({"after": "2031-01-01"}, {"before": "2020-01-01"}):
        at = opened("library", **address)
        assert not [n for n in names if n in linked(at)]
        assert "No run fits" in html(at)
    at = opened("library", after="2020-01-01", before="2031-01-01")
    assert [n for n in names if n in linked(at)] == list(names)


def linked(at: AppTest) -> list[str]:
    return [link.proto.label for link in at.get("page_link")]


def test_the_number_that_sorts_stands_in_the_table(client, engine):
    engine.results.report(engine.store.runs_of(add_run(engine))[0])
    at = opened("library")
    assert "mean" not in list(at.dataframe[0].proto.column_order)
    for order, column in (("Mean", "mean"), ("Most rows", "rows"), ("Stride", "stride")):
        at = opened("library", order=order)
        assert column in list(at.dataframe[0].proto.column_order)
        assert at.dataframe[0].value[column].notna().all()


def save(at: AppTest, name: str) -> None:
    at.button(key="view-save").click().run()
    at.text_input(key="view-name").set_value(name)
    at.button(key="view-save").click()  # a dialog is open while its button is pressed
    at.button(key="view-save-now").click().run()
    assert not at.exception


def test_a_view_keeps_all_values_of_a_parameter(client):
    at = opened("library", kinds=["Custom", "Eviction"])
    save(at, "Both")
    at = short(view=client.views()[0]["id"])
    assert at.session_state["kinds"] == ["Custom", "Eviction"]
    assert "changed here since" not in html(at)


def test_the_gallery_can_be_saved_and_its_link_opens_it(client):
    at = AppTest.from_file(MAIN, default_timeout=90).run()
    save(at, "Gallery")
    (view,) = client.views()
    assert view["page"] == "start"
    body = html(short(view=view["id"]))
    assert "View “Gallery”" in body
    assert "A compressed cache remembers" in body


def test_a_search_of_the_library_can_be_saved_like_any_page(client):
    at = opened("library", q="made", order="Worst phase")
    at.button(key="view-save").click().run()
    assert at.text_input(key="view-name")
    assert not at.exception


def test_a_short_link_opens_what_was_saved_and_an_unknown_one_says_so(client, engine):
    key = add_run(engine)
    id = client.save_view("library", {"q": "made"}, "My view")["id"]
    at = AppTest.from_file(MAIN, default_timeout=90)
    at.query_params["view"] = id
    at.run()
    assert not at.exception
    assert at.query_params["q"] == "made"
    assert at.query_params["view"] == id
    assert "View “My view”" in html(at)
    assert key in [run["key"] for run in client.library()["runs"]]
    for bad in ("0123456789", "../../etc", "x" * 5000, "‮"):
        at = AppTest.from_file(MAIN, default_timeout=90)
        at.query_params["view"] = bad
        at.run()
        assert not at.exception
        assert "No such view here" in html(at)


def short(**address: str) -> AppTest:
    """The gallery's address with these parameters, in a new session."""
    at = AppTest.from_file(MAIN, default_timeout=20)
    for name, value in address.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def test_a_view_of_a_page_without_parameters_opens(client):
    at = short(view=client.save_view("library", {}, "Bare")["id"])
    assert "View “Bare”" in html(at)
    at = opened("library", view=client.views()[0]["id"])
    assert "View “Bare”" in html(at)


def test_a_view_of_a_page_that_this_version_lacks_says_whose_it_is(client):
    at = short(view=client.save_view("mechanism", {"layer": "2"}, "Later")["id"])
    assert "View “Later”" in html(at)


def test_a_link_to_which_a_messenger_has_added_something_opens(client):
    at = short(view=client.save_view("library", {"q": "made"}, "Mine")["id"], utm_source="chat")
    assert at.query_params["q"] == "made"


def test_a_reader_who_clears_the_last_parameter_is_not_taken_back(client):
    at = short(view=client.save_view("library", {"q": "made"}, "Mine")["id"])
    del at.query_params["q"]  # as the browser does when the box is emptied
    at.text_input(key="q").input("").run()
    assert "q" not in at.query_params
    assert "changed here since" in html(at)


def test_a_hostile_state_does_not_close_the_library(client):
    client.save_view("library", {"embed": "true", "": "a", "a=b&c": "\0"}, "Odd")
    assert "could not be drawn" not in html(opened("library"))


def test_a_changed_page_says_so_and_another_writer_is_not_overwritten(client, engine):
    id = client.save_view("library", {"q": "made"}, "Mine")["id"]
    at = opened("library", q="other", view=id)
    assert "changed here since" in html(at)
    place = f"view-edit-{id}"
    at.text_input(key=f"{place}-name").input("Renamed here")
    client.edit_view(id, 1, name="Renamed elsewhere")
    at.button(key=f"{place}-save").click().run()
    assert "changed elsewhere" in html(at)
    assert client.view(id)["name"] == "Renamed elsewhere"
    at.button(key=f"{place}-reload").click().run()
    assert at.text_input(key=f"{place}-name").value == "Renamed elsewhere"


def test_what_goes_with_a_run_is_told_before_it_is_deleted(client, engine):
    key = add_run(engine)
    assert client.losses(key)["note"] == ""
    client.write_note(key, 0, note="mine", tags=["keep"])
    lost = client.losses(key)
    assert (lost["note"], lost["tags"], lost["key"]) == ("mine", ["keep"], key)


@pytest.mark.parametrize("press", ["lock", "delete"])
def test_what_was_changed_elsewhere_is_neither_locked_nor_deleted_unseen(client, press):
    id = client.save_view("library", {"q": "made"}, "Mine")["id"]
    at = opened("library", q="made", view=id)
    client.edit_view(id, 1, name="Renamed elsewhere")
    at.button(key=f"view-edit-{id}-{press}").click().run()
    assert "changed elsewhere" in html(at)
    assert (client.view(id)["name"], client.view(id)["locked"]) == ("Renamed elsewhere", False)


def test_who_sets_the_retention_second_is_told(client):
    at = opened("library")
    client.keep_for(30, None)
    at.number_input(key="library-days").set_value(7)
    at.button(key="library-keep").click().run()
    assert not at.exception
    assert any("was changed elsewhere" in each.value for each in at.toast)
    assert client.library()["retention_days"] == 30
    assert at.number_input(key="library-days").value == 30
    at.number_input(key="library-days").set_value(7)
    at.button(key="library-keep").click().run()
    assert client.library()["retention_days"] == 7


def test_a_locked_view_offers_unlock_alone(client):
    id = client.save_view("library", {"q": "a"}, "Mine")["id"]
    client.edit_view(id, 1, locked=True)
    at = opened("library", q="a", view=id)
    keys = {button.key for button in at.button}
    assert f"view-edit-{id}-unlock" in keys
    assert f"view-edit-{id}-delete" not in keys
    at.button(key=f"view-edit-{id}-unlock").click().run()
    assert client.view(id)["locked"] is False


def test_a_reader_s_view_offers_neither_fork_nor_edit(client, monkeypatch):
    id = client.save_view("library", {"q": "a"}, "Mine")["id"]
    monkeypatch.setattr(type(client), "health", lambda self: {"read_only": True})
    at = opened("library", q="a", view=id)
    assert "View “Mine”" in html(at)
    assert not [button.key for button in at.button if button.key.startswith("view-")]


def test_a_deleted_view_can_be_undone(client):
    id = client.save_view("library", {"q": "a"}, "Mine")["id"]
    at = opened("library", q="a", view=id)
    at.button(key=f"view-edit-{id}-delete").click().run()
    assert client.views() == []
    assert "was deleted" in html(at)
    at.button(key="view-undo").click().run()
    assert [view["id"] for view in client.views()] == [id]


def test_deleted_views_are_listed_and_brought_back(client):
    id = client.save_view("library", {"q": "a"}, "Mine")["id"]
    assert not [b for b in opened("library").button if "restore" in b.key]
    services_sharing.edit(id, 1, deleted=True)
    at = opened("library")
    assert [e.label for e in at.expander] == ["Deleted views"]
    assert "Mine · library · now" in html(at)
    at.button(key=f"view-restore-{id}").click().run()
    assert [view["id"] for view in client.views()] == [id]
    assert not [b for b in at.button if "restore" in b.key]


def test_readers_are_told_of_no_deleted_view(client, engine):
    id = client.save_view("library", {"q": "a"}, "Mine")["id"]
    client.edit_view(id, 1, deleted=True)
    assert [view["id"] for view in client.library()["deleted"]] == [id]
    engine.access = Access(read_only=True)
    assert client.library()["deleted"] == []


@pytest.fixture
def downloads(monkeypatch):
    """Label of a download button → what makes its file, of the page drawn last."""
    made, button = {}, streamlit.download_button

    def download_button(label, data, *args, **options):
        made[label] = data
        return button(label, data, *args, **options)

    monkeypatch.setattr(streamlit, "download_button", download_button)
    return made


def test_a_view_leaves_with_its_runs_and_is_linked_where_it_comes_in(client, engine, downloads):
    key = add_run(engine)
    view = client.save_view("explore", {"key": key}, "Mine", note="told")["view"]
    at = opened("library", view=view["id"])
    forms = [f"{client.url}/views/{view['id']}.{form}" for form in ("json", "csv", "parquet")]
    assert [b.proto.url for b in at.get("link_button")] == forms
    bundle = downloads["Bundle"]()
    client.edit_view(view["id"], 1, deleted=True)
    client.delete(key)
    at = opened("library")
    at.file_uploader(key="library-import").upload("b.zip", bundle, "application/zip").run()
    assert not at.exception
    body = html(at)
    assert "1 run added." in body
    assert "It came with a view" in body
    assert "Mine" in linked(at)
    assert client.view(view["id"])["note"] == "told"


def test_a_reader_finds_a_view_s_address_and_its_bundle(client, engine, downloads, monkeypatch):
    view = client.save_view("explore", {"key": add_run(engine)}, "Mine")["view"]
    monkeypatch.setattr(type(client), "health", lambda self: {"read_only": True})
    at = opened("library", view=view["id"])
    forms = [f"{client.url}/views/{view['id']}.{form}" for form in ("json", "csv", "parquet")]
    assert [b.proto.url for b in at.get("link_button")] == forms
    assert "Bundle" in downloads


def test_a_report_has_the_open_view_s_name_and_note(client, engine, downloads):
    keys = [add_run(engine), add_run(engine, samples=4)]
    address = {"runs": ",".join(keys)}
    view = client.save_view("compare", address, "Told apart", note="by hand")["view"]
    opened("compare", **address, view=view["id"])
    told = downloads["Report"]().decode()
    assert "Told apart" in told
    assert "by hand" in told
    opened("compare", **address)
    assert "Told apart" not in downloads["Report"]().decode()
