import pytest
from ruamel.yaml import YAML

from pipeline import data_files, data_update
from pipeline.data_update import Change, update_data
from pipeline.overrides import with_overrides
from stages.errors import DataError, MachineError, StoppedError
from stages.params import Params
from tests import tiny
from tests.toy_project import Toy


@pytest.fixture
def importing(toy) -> Toy:
    """Its raw data come from elsewhere."""
    toy.write("../elsewhere/rows.csv", "text,label\nimported,1\n")
    elsewhere = toy.root.parent / "elsewhere"
    toy.dvc("import-url", "--quiet", str(elsewhere / "rows.csv"), "data/imported.csv")
    toy.write("params.yaml", toy.read("params.yaml").replace("rows.csv", "imported.csv"))
    toy.dvc("repro", "--quiet")
    toy.commit("Imported")
    return toy


def ran(toy):
    """The stages that `dvc repro` runs."""
    said = toy.dvc("repro")
    return [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


def test_where_nothing_changed_nothing_is_touched(importing):
    said = []
    assert update_data(importing.root, say=said.append) == []
    assert said == ["'data/imported.csv.dvc' didn't change, skipping"]
    assert importing.git("status", "--porcelain") == ""


def test_new_bytes_of_an_import_are_fetched_and_the_graph_runs_on_them(importing):
    old = data_files.find(importing.root)[0].digest
    importing.write("../elsewhere/rows.csv", "text,label\nimported,1\nnew,2\n")
    importing.write("../elsewhere/unread.csv", "a")
    importing.dvc("import-url", "--quiet", str(importing.root.parent / "elsewhere/unread.csv"), "data/unread.csv")
    importing.write("../elsewhere/unread.csv", "b")
    changes = update_data(importing.root)
    new = {one.path: one.digest for one in data_files.find(importing.root)}["data/imported.csv"]
    assert changes == [Change("data/imported.csv", old, new)]
    assert old != new
    assert importing.read("data/imported.csv").endswith("new,2\n")
    # What no stage reads is not fetched: its source need not even be there.
    assert importing.read("data/unread.csv") == "a"
    assert "train@13" in ran(importing)


def test_a_source_that_is_gone_costs_no_data(importing):
    (importing.root / "../elsewhere/rows.csv").unlink()
    with pytest.raises(MachineError, match=r"dvc update data/imported\.csv\.dvc: .*does not exist"):
        update_data(importing.root)
    importing.dvc("checkout", "--quiet")
    assert importing.read("data/imported.csv") == "text,label\nimported,1\n"
    assert importing.git("status", "--porcelain") == ""


def test_an_import_that_was_changed_by_hand_is_not_overwritten(importing):
    importing.write("data/imported.csv", "by hand")
    importing.write("../elsewhere/rows.csv", "new")
    with pytest.raises(DataError, match=r"data/imported\.csv: imported, and changed since by hand; `dvc checkout"):
        update_data(importing.root)
    assert importing.read("data/imported.csv") == "by hand"


def test_local_data_are_hashed_anew_where_their_bytes_changed(toy):
    file = toy.root / "data/rows.csv.dvc"
    file.write_text(file.read_text() + "# from the warehouse\n")
    toy.write("data/rows.csv", "text,label\nnew,rows\n")
    (change,) = update_data(toy.root)
    assert change.path == "data/rows.csv"
    assert change.new == data_files.find(toy.root)[0].digest != change.old
    assert file.read_text().endswith("# from the warehouse\n")
    assert "train@13" in ran(toy)
    assert update_data(toy.root) == []


def test_data_that_were_not_pulled_are_not_taken_for_changed(toy):
    other = toy.clone("other")
    assert update_data(other.root) == []
    assert not (other.root / "data/rows.csv").exists()


@pytest.fixture
def fetching(toy) -> Toy:
    """A stage of its graph fetches what a knob names."""
    toy.write("params.yaml", with_overrides(toy.read("params.yaml"), {"data.hub": "some/set"}))
    toy.dvc("repro", "--quiet")
    toy.commit("Fetched")
    return toy


def test_a_stage_that_fetches_runs_again_and_unchanged_bytes_run_nothing_further(fetching):
    said = []
    assert update_data(fetching.root, say=said.append) == []
    assert "Running stage 'fetch':" in said
    assert fetching.git("status", "--porcelain") == ""
    assert ran(fetching) == []


def test_new_bytes_that_a_stage_fetched_are_named_and_run_what_reads_them(fetching):
    fetching.write("../source.txt", "new rows\n")
    (change,) = update_data(fetching.root)
    assert change.path == "data/fetched"
    assert "train@14" in ran(fetching)


def test_in_a_fresh_clone_what_the_fetching_stage_needs_runs_first_and_each_once(fetching):
    other = fetching.clone("other")
    other.git("pull", "--quiet", str(fetching.root), "main")
    said = []
    assert update_data(other.root, say=said.append) == []
    assert [line for line in said if line.startswith("Running")] == ["Running stage 'check':", "Running stage 'fetch':"]


def test_where_its_knob_is_null_the_stage_does_not_run(toy):
    (toy.root / "../source.txt").unlink()
    assert update_data(toy.root, say=lambda line: pytest.fail(line)) == []


def test_a_stage_that_fails_to_fetch_ends_it_by_its_own_exit_code(fetching):
    (fetching.root / "../source.txt").unlink()
    for code, kind in ((5, StoppedError), (4, MachineError), (2, DataError.__mro__[1])):
        fetching.write("fault.txt", str(code))
        with pytest.raises(kind, match=f"exited with {code}"):
            update_data(fetching.root, say=lambda line: None)
    # DVC removed the output before it ran the stage: what was there comes back from the cache.
    fetching.dvc("checkout", "--quiet")
    assert fetching.read("data/fetched/rows") == "fetched\n"


def test_the_graph_of_the_repository_marks_knobs_that_there_are():
    stages = YAML(typ="safe").load(tiny.ROOT / "dvc.yaml")["stages"]
    marks = [
        stage["meta"][data_update.FETCHES] for stage in stages.values() if data_update.FETCHES in stage.get("meta", {})
    ]
    assert marks == ["data.hub"]
    knobs = tiny.params()
    for place in marks:
        section, _, knob = place.partition(".")
        assert knob in knobs[section]
        assert Params.model_fields[section].annotation.model_fields[knob].annotation is not type(None)


def test_a_data_file_in_another_folder_or_that_is_none_is_understood_or_named(toy):
    toy.write("raw/all.dvc", "wdir: ../data\nouts:\n- path: more\n  md5: abc.dir\n")
    found = {one.file: one for one in data_files.find(toy.root)}
    assert found["raw/all.dvc"].path == "data/more"
    assert data_files.holding("data/more/part/a.csv", found.values()) == found["raw/all.dvc"]
    assert data_files.holding("data/moreover", found.values()) is None
    toy.write("raw/all.dvc", "[1]")
    with pytest.raises(DataError, match=r"raw/all\.dvc: not a \.dvc file that can be read"):
        data_files.find(toy.root)
