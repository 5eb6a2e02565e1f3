import os
import pty
import subprocess
import sys
import time

import pytest

from pipeline import clean, leftovers
from stages import checkpoints, identity, outputs
from stages.errors import MachineError
from tests import tiny

DAY = 86400
NAMES = {letter: letter * 32 for letter in "abcdef"}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("REMINT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def checkout(tmp_path, root):
    """A checkout of remint, by what says so: with its code, since `remint` works in its own checkout alone."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "dvc.yaml").write_text((tiny.ROOT / "dvc.yaml").read_text())
    for name in ("pipeline", "stages"):
        (folder / name).symlink_to(tiny.ROOT / name)
    tiny.write_params(folder / "params.yaml")
    return folder


def training(root, letter, *, days=0.0, seed=13, step=None, finished=None, **train):
    """What a training leaves: a save at a step, or its weights and the mark that it ended."""
    folder = root / NAMES[letter]
    params = tiny.params(**{f"train.{name}": value for name, value in train.items()})
    facts = {name: params[name] for name in ("task", "train")} | {"seed": seed, "precision": "fp32", "processes": 1}
    identity.record(folder, facts)
    (folder / "lock").write_text("1234\n")
    if step is not None:
        save = folder / f"resume/checkpoint-{step}"
        outputs.write_json(save / "trainer_state.json", {"global_step": step, "max_steps": 600})
        (save / "optimizer.pt").write_bytes(b"x" * 2_000_000)
        checkpoints.complete(save, step=step)
    if finished is not None:
        (folder / "weights/checkpoint-600").mkdir(parents=True)
        (folder / "weights/checkpoint-600/model.safetensors").write_bytes(b"x" * 1000)
        outputs.write_json(folder / "finished.json", {"log": [], **({"output": finished} if finished else {})})
    aged(folder, days)
    return folder


def aged(path, days):
    """Let a file, or all in a folder, have changed so many days ago."""
    for one in [path, *path.rglob("*")]:
        os.utime(one, times=(time.time() - days * DAY,) * 2, follow_symlinks=False)


def run(checkout, *arguments, code=0, **settings):
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    # As `remint` of that checkout: its code is the checkout's, by links.
    script = "import sys, pathlib, pipeline.checkout as c; c.CODE = pathlib.Path.cwd().resolve(); "
    script += "sys.argv = ['remint', *sys.argv[1:]]; from pipeline import cli; cli.main()"
    command = [sys.executable, "-P", "-c", script, "clean", *arguments]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, **settings)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def found(root, checkout):
    return {one.path.name[0]: one for one in leftovers.of_trainings(root, checkout / "dvc.lock")}


def test_each_training_is_told_apart_by_how_far_it_came(root, checkout):
    training(root, "a", step=120)
    training(root, "b", finished="")
    training(root, "c", finished="1234.dir")
    training(root, "d", finished="5678.dir")
    training(root, "e")
    (root / NAMES["f"] / "weights/checkpoint-50").mkdir(parents=True)
    (checkout / "dvc.lock").write_text("md5: 1234.dir\n")
    assert {letter: (one.what, one.can_go_on) for letter, one in found(root, checkout).items()} == {
        "a": ("unfinished, at step 120 of 600", True),
        "b": ("ended, not handed over", True),
        "c": ("ended, its output is in dvc.lock of this checkout", False),
        "d": ("ended, its output is not in dvc.lock of this checkout", True),
        "e": ("empty", False),
        "f": ("unfinished, with no whole save to go on from", False),
    }


def test_the_newest_whole_save_counts(root, checkout):
    folder = training(root, "a", step=90)
    training(root, "a", step=100)
    (folder / "resume/checkpoint-110").mkdir()
    assert found(root, checkout)["a"].what == "unfinished, at step 100 of 600"


def test_a_training_has_an_age_and_a_size_and_the_oldest_comes_first(root, checkout):
    training(root, "a", step=1, days=2)
    training(root, "b", finished="x", days=40)
    listed = leftovers.of_trainings(root, checkout / "dvc.lock")
    assert [one.path.name[0] for one in listed] == ["b", "a"]
    assert listed[1].seconds == pytest.approx(2 * DAY, abs=60)
    assert 2_000_000 < listed[1].size < 2_010_000


def test_params_that_differ_from_params_yaml_or_between_trainings_are_listed(root, checkout):
    training(root, "a", step=1, learning_rate=0.25, batch_size=4)
    training(root, "b", step=2, seed=14, batch_size=2)
    (root / NAMES["c"]).mkdir()
    tiny.write_params(checkout / "params.yaml", **{"train.batch_size": 4})
    text = run(checkout)
    assert "3 trainings in " in text
    assert "at step 1 of 600; seed 13\n    train.batch_size 4; train.learning_rate 0.25 (params.yaml: 0.005)\n" in text
    assert "at step 2 of 600; seed 14\n    train.batch_size 2 (params.yaml: 4); train.learning_rate 0.005\n" in text
    assert "begun by an older version" in text
    (checkout / "params.yaml").write_text("train: [")
    assert "train.batch_size 4; train.learning_rate 0.25\n" in run(checkout)


def test_a_training_as_params_yaml_has_it_says_so_and_many_params_are_cut_short(root, checkout):
    training(root, "a", step=1)
    assert "params as in params.yaml" in run(checkout)
    other = {"learning_rate": 1, "batch_size": 4, "optim": "sgd", "weight_decay": 1, "max_steps": 7, "eval_steps": 3}
    training(root, "a", step=1, **other)
    assert "; and 2 more" in run(checkout)


def test_without_a_terminal_nothing_is_removed_unless_yes_is_said(root, checkout):
    folder = training(root, "a", step=1)
    text = run(checkout, stdin=subprocess.DEVNULL)
    assert "1 of them can go, 2.0 MB: nothing is removed without --yes" in text
    assert folder.exists()
    assert "removed 1 of them, 2.0 MB" in run(checkout, "--yes")
    assert not folder.exists()
    assert "nothing to remove" in run(checkout)


@pytest.mark.parametrize(("answer", "is_left"), [(b"y\n", False), (b"n\n", True), (b"\n", True)])
def test_at_a_terminal_it_asks_first(root, checkout, answer, is_left):
    folder = training(root, "a", step=1)
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    script = "import sys, pathlib; from pipeline import clean; "
    script += "clean.clean(pathlib.Path(), older_than_days=0, keep_unfinished=False, yes=False)"
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    subprocess.run(command, cwd=checkout, env=environment, stdin=theirs, stdout=theirs, check=True)
    os.close(theirs)
    assert b"Remove? [y/N]" in os.read(ours, 10_000)
    os.close(ours)
    assert folder.exists() == is_left


def test_only_what_is_old_enough_or_of_no_more_use_is_removed(root, checkout):
    kept = training(root, "a", step=1, days=1)
    old = training(root, "b", step=1, days=10)
    run(checkout, "--older-than", "5", "--yes")
    assert (kept.exists(), old.exists()) == (True, False)
    empty = training(root, "c")
    run(checkout, "--keep-unfinished", "--yes")
    assert (kept.exists(), empty.exists()) == (True, False)
    assert "error: --older-than -1: a number of days" in run(checkout, "--older-than", "-1", code=2)


def test_a_training_that_a_process_is_at_is_left_and_its_process_named(root, checkout):
    held, free = training(root, "a", step=1), training(root, "b", step=1)
    with identity.claimed(held):
        text = run(checkout, "--yes")
    assert f"in use by process {os.getpid()}: it stays" in text
    assert (held.exists(), free.exists()) == (True, False)


def test_a_training_that_was_taken_up_after_it_was_listed_is_left(root, checkout, capsys):
    folder = training(root, "a", step=1)
    listed = found(root, checkout)["a"]
    with identity.claimed(folder):
        assert not clean.remove(listed)
    assert folder.exists()
    assert "is at this very training" in capsys.readouterr().out


def test_to_look_at_a_training_changes_nothing_in_it(root, checkout):
    folder = training(root, "a", step=1, days=3)
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()}
    run(checkout)
    assert {
        file: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.rglob("*") if file.is_file()
    } == before


def test_nothing_but_trainings_is_removed_from_the_state_folder_and_no_link_is_followed(root, checkout, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "resume").mkdir(parents=True)
    (elsewhere / "resume/precious").write_text("kept")
    root.mkdir()
    (root / NAMES["a"]).symlink_to(elsewhere)
    folder = training(root, "b", step=1)
    (folder / "link").symlink_to(elsewhere)
    for name in ("documents", NAMES["c"].upper(), f"{NAMES['c']}0"):
        (root / name).mkdir()
        (root / name / "file").write_text("kept")
    (root / NAMES["d"]).write_text("a file of that name")
    run(checkout, "--yes")
    assert not folder.exists()
    assert (elsewhere / "resume/precious").read_text() == "kept"
    assert len(list(root.iterdir())) == 5


def test_a_file_in_a_training_that_changed_just_now_makes_all_of_it_new(root, checkout):
    folder = training(root, "a", step=1, days=30)
    (folder / "resume/checkpoint-1/trainer_state.json").touch()
    assert found(root, checkout)["a"].seconds < 60


def partials(checkout):
    """Outputs that a killed run has begun: a folder, a file, and one inside an output."""
    made = [checkout / "models/.exported.partial", checkout / "data/.13.csv.partial"]
    made[0].mkdir(parents=True)
    (made[0] / "model.onnx").write_bytes(b"x" * 100)
    made[1].parent.mkdir()
    made[1].write_bytes(b"x")
    (checkout / "models/scores").mkdir()
    made.append(checkout / "models/scores/.13.json.partial")
    made[2].write_bytes(b"x")
    return made


def test_outputs_that_never_became_whole_are_removed_and_no_others(checkout, root, tmp_path):
    made = partials(checkout)
    others = [checkout / "models/exported.partial", checkout / "models/.partial", checkout / "notes/.a.partial"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("kept")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/.b.partial").write_text("kept")
    (checkout / "data/raw").symlink_to(tmp_path / "elsewhere")
    (checkout / "models/.link.partial").symlink_to(tmp_path / "elsewhere")
    text = run(checkout, "--yes")
    assert "4 unfinished outputs in this checkout" in text
    assert [path for path in made if path.exists()] == []
    assert [path for path in others if not path.exists()] == []
    assert (tmp_path / "elsewhere/.b.partial").exists()
    assert not (checkout / "models/.link.partial").is_symlink()


def test_while_a_stage_runs_in_the_checkout_its_unfinished_outputs_stay(checkout, root):
    made = partials(checkout)
    command = [sys.executable, "-c", "import sys, time; print(flush=True); time.sleep(60)", "-m", "stages.export"]
    with subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        text = run(checkout, "--yes")
        process.kill()
    assert f"in use by process {process.pid}: it stays" in text
    assert all(path.exists() for path in made)


def test_what_can_not_be_removed_is_the_machine_s_fault(root, checkout, monkeypatch):
    folder = training(root, "a", step=1)
    listed = found(root, checkout)["a"]

    def refuse(path, *arguments, **settings):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(clean.shutil, "rmtree", refuse)
    with pytest.raises(MachineError, match=f"{folder}: Permission denied"):
        clean.remove(listed)


def test_a_state_folder_that_is_not_there_has_nothing(root, checkout):
    text = run(checkout)
    assert f"0 trainings in {root}" in text
    assert "nothing to remove" in text
    assert not root.exists()
    assert leftovers.of_trainings(root, checkout / "dvc.lock") == []
