import json

import pytest

from pipeline import comparison, verify, verify_report
from pipeline.comparison import Input, Output
from pipeline.recorded import Stage
from pipeline.stored import Stored, digest_of, listing_of, md5_of
from stages.errors import DataError, GateError, MachineError, RemintError, StoppedError, UserError


def stage(inputs=None, params=None, outputs=None, command="run"):
    return Stage(command, inputs or {}, params or {}, outputs or {})


def written(root, files):
    """Files in a workspace without a cache; the workspace, and the digest of each output."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    tops = sorted({name.split("/")[0] for name in files})
    outs = {top: digest_of(listing_of(root / top)) if (root / top).is_dir() else md5_of(root / top) for top in tops}
    return Stored(root, root / "cache"), outs


def compared(tmp_path, committed, new, *, keep_committed=True):
    old, was = written(tmp_path / "old", committed)
    made, now = written(tmp_path / "new", new)
    if not keep_committed:
        old = Stored(tmp_path / "nowhere", tmp_path / "nowhere")
    found = comparison.outputs({"s": stage(outputs=was)}, {"s": stage(outputs=now)}, (), old=old, made=made)
    return {one.path: one for one in found}


def test_outputs_are_equal_or_differ_and_of_those_each_file_is_explained(tmp_path):
    committed = {
        "same/a": "1",
        "file.json": '{"a": 1}',
        "folder/a.json": "[1]",
        "folder/b.csv": "x\n1\n",
        "folder/c": "c",
    }
    new = {"same/a": "1", "file.json": '{"a": 2}', "folder/a.json": "[2]", "folder/b.csv": "x\n2\n", "folder/d": "d"}
    found = compared(tmp_path, committed, new)
    assert found["same"] == Output("s", "same", "equal", found["same"].found, found["same"].found)
    assert found["file.json"].files == {".": "a: 1 in the commit's, now 2"}
    assert found["folder"].number_of_files == 4
    assert list(found["folder"].files.items()) == [
        ("b.csv", "row 1, column x: 1 in the commit's, now 2"),
        ("a.json", "[0]: 1 in the commit's, now 2"),
        ("c", "in the commit's alone"),
        ("d", "not in the commit's"),
    ]


def test_of_many_files_that_differ_some_are_explained_and_all_are_counted(tmp_path):
    names = [f"out/{number:02}" for number in range(30)]
    found = compared(tmp_path, dict.fromkeys(names, "a"), dict.fromkeys(names, "b"))
    assert found["out"].number_of_files == 30
    assert list(found["out"].files) == [f"{number:02}" for number in range(comparison.EXPLAINED)]


@pytest.mark.parametrize("name", ["out", "out/file"])
def test_where_the_commit_s_bytes_are_nowhere_that_is_said(tmp_path, name):
    found = compared(tmp_path, {name: "a"}, {name: "b"}, keep_committed=False)
    assert found["out"].status == "differs"
    assert found["out"].files == {".": comparison.NOWHERE}


def test_a_file_that_became_a_folder_is_said_to_differ(tmp_path):
    found = compared(tmp_path, {"out": "a"}, {"out/file": "b"})["out"]
    assert (found.status, found.files) == ("differs", {".": "a file in the commit's, now a folder"})


def test_what_only_one_of_the_lock_files_has_is_not_compared(tmp_path):
    recorded = {"ran": stage(outputs={"a": "1", "dropped": "2"}), "other": stage(outputs={"b": "3"})}
    new = {"ran": stage(outputs={"a": "1", "more": "4"}), "new": stage(outputs={"c": "5"})}
    nothing = Stored(tmp_path, tmp_path)
    found = comparison.outputs(recorded, new, (), old=nothing, made=nothing)
    assert {one.path: (one.status, one.why) for one in found} == {
        "a": ("equal", ""),
        "dropped": ("not compared", "its stage no longer writes it"),
        "more": ("not compared", "the commit's dvc.lock does not have it"),
        "b": ("not compared", "its stage was not run"),
        "c": ("not compared", "the commit's dvc.lock does not have it"),
    }
    found = comparison.outputs(recorded, {}, ["ran"], old=nothing, made=nothing)
    assert [one.why for one in found] == ["the run ended before its stage did"] * 2 + ["its stage was not run"]


def test_inputs_that_are_not_as_recorded_are_named_once_with_all_stages_that_take_them():
    recorded = {
        "a": stage({"versions.txt": "1", "raw": "2"}, {"a.x": 1, "a.y": True}, {"out": "3"}),
        "b": stage({"versions.txt": "1", "out": "3", "gone": "7"}, {"a.x": 1}),
    }
    new = {
        "a": stage({"versions.txt": "9", "raw": "2"}, {"a.x": 2, "a.y": 1}, {"out": "4"}),
        "b": stage({"versions.txt": "9", "out": "4", "come": "8"}, {"a.x": 2}, command="run b"),
    }
    found = comparison.inputs(recorded, new)
    assert found == [
        Input("command", "run b", "run", "run b", ["b"]),
        Input("file", "come", None, "8", ["b"]),
        Input("file", "gone", "7", None, ["b"]),
        Input("file", "versions.txt", "1", "9", ["a", "b"]),
        Input("param", "a.x", 1, 2, ["a", "b"]),
        Input("param", "a.y", True, 1, ["a"]),
    ]
    assert [comparison.describe(one) for one in found] == [
        "the command was run, is run b",
        "come was no input when dvc.lock was made",
        "gone is no longer an input",
        "versions.txt is not what dvc.lock was made with",
        "a.x: 1 in dvc.lock, 2 in the commit",
        "a.y: true in dvc.lock, 1 in the commit",
    ]


def test_a_stage_that_did_not_run_has_no_inputs_to_name():
    assert comparison.inputs({"a": stage({"x": "1"})}, {}) == []


@pytest.fixture
def report():
    environment = {"python": "3.11.7", "machine": "x86_64", "cpu": "Some CPU", "cores": 1, "packages": 63}
    return verify.Report(
        commit="0123456789abcdef",
        uncommitted=False,
        environment={**environment, "deviations": []},
        ran=["prepare"],
        taken=["data/fetched"],
        lock_commit="fedcba9876543210",
        outputs=[
            Output(
                "prepare", "data/prepared", "differs", "a.dir", "b.dir", files={"t.csv": "row 1"}, number_of_files=5
            ),
            Output("check", "data/code", "equal", "c.dir", "c.dir"),
            Output("train@13", "models/13", "not compared", "d.dir", why="its stage was not run"),
        ],
    )


def test_the_report_has_a_line_for_each_output_and_says_what_may_explain_it(report):
    text = "\n".join(verify_report.lines(report, alone=True))
    assert "data/prepared  prepare  differs\n    t.csv: row 1\n    5 files of it differ in all" in text
    assert "data/code      check    equal" in text
    assert "not compared, since its stage was not run: models/13" in text
    assert "1 of 2 outputs compared: equal to dvc.lock of the commit" in text
    assert "63 packages as the commit's requirements/stages.txt says" in text
    assert "another type of CPU" in text
    report.environment["deviations"] = [{"package": "numpy", "wanted": "==1.0", "found": "2.4.6"}]
    report.inputs = [Input("file", "stages", "1.dir", "2.dir", ["check"], ["stages/a.py", "stages/b.py"])]
    text = "\n".join(verify_report.lines(report, alone=True))
    assert "numpy: 2.4.6 installed, the commit says ==1.0" in text
    assert "stages is not what dvc.lock was made with: check\n    changed since fedcba987" in text
    assert "stages/a.py, stages/b.py" in text
    assert "another type of CPU" not in text


def test_json_holds_all_that_was_found(report):
    found = json.loads(verify_report.as_json(report))
    assert found["counts"] == {"equal": 1, "differs": 1, "not_compared": 1}
    assert found["outputs"][0]["files"] == {"t.csv": "row 1"}
    assert found["commit"] == report.commit


def test_a_difference_ends_with_the_code_of_a_gate_and_none_with_none(report):
    with pytest.raises(GateError, match=r"1 of 2 outputs are not what dvc.lock of 012345678 says: data/prepared"):
        verify.refuse(report, None)
    with pytest.raises(MachineError, match="disk"):
        verify.refuse(report, MachineError("disk"))
    report.outputs = report.outputs[1:]
    verify.refuse(report, None)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(2, UserError), (3, GateError), (4, MachineError), (5, StoppedError), (1, RemintError), (-9, RemintError)],
)
def test_a_stage_that_fails_ends_the_command_as_itself(tmp_path, code, kind):
    error = verify.failure(verify.Ended(255, "train@13", code, "ERROR: ..."), tmp_path, [])
    assert type(error) is kind
    assert f"stage train@13 failed with exit code {code}" in str(error)


def test_an_input_that_no_clone_has_is_named(tmp_path):
    error = verify.failure(verify.Ended(255, "prepare", None, "ERROR: missing data"), tmp_path, ["data/raw/rows.csv"])
    assert type(error) is DataError
    assert "data/raw/rows.csv" in str(error)
    (tmp_path / "rows").write_text("")
    error = verify.failure(verify.Ended(255, "", None, "ERROR: no such lock"), tmp_path, ["rows"])
    assert type(error) is RemintError
    assert "no such lock" in str(error)
