"""Going on with a training: which one is gone on with, from where, and that it ends as if nothing had happened."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import resume_cells
from stages import checkpoints, identity, params, train
from tests.training_runs import BREAK_AT_STEP_7, ROOT, Workspace

ONE_THREAD = {"OMP_NUM_THREADS": "1"}

IN_MAKE_TEST = {
    "2 ranks, bf16, during a save, masking, 2 workers",
}
"""The rest is slow: two trainings each."""


@pytest.fixture(scope="session")
def cells(tmp_path_factory):
    """The inputs of all cells, and the training that nobody disturbs for each kind, made once."""
    root = tmp_path_factory.mktemp("cells")
    encoded, base = resume_cells.inputs(root)
    made = {}

    def undisturbed(cell):
        key = (cell.processes, cell.precision, cell.masked)
        if key not in made:
            made[key] = resume_cells.undisturbed(root / f"undisturbed{len(made)}", encoded, base, cell)
        return made[key]

    return encoded, base, undisturbed


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=cell.name, marks=[] if cell.name in IN_MAKE_TEST else pytest.mark.slow)
        for cell in resume_cells.CELLS
    ],
)
def test_a_training_killed_at_any_moment_ends_in_the_same_bytes(tmp_path, cells, cell):
    """Case 20: rows, losses, learning rates and gradient norms of each step, and all outputs."""
    encoded, base, undisturbed = cells
    assert resume_cells.verdict(tmp_path / "cell", encoded, base, cell, undisturbed(cell)) == "equal"


OTHERS = {
    "processes": 2,
    "threads": 2,
    "precision": "bf16",
    "batch_size": 4,
    "max_rows_per_device": 4,
    "learning_rate": 4e-3,
    "num_train_epochs": 3.0,
    "max_steps": 9,
    "optim": "adamw_torch",
    "weight_decay": 0.02,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 3,
    "max_grad_norm": 0.5,
    "label_smoothing_factor": 0.1,
    "train_sampling_strategy": "random",
    "eval_strategy": "steps",
    "eval_steps": 3,
    "early_stopping": {"metric": "accuracy", "patience": 2, "min_delta": 0.0},
    "logging_steps": 2,
    "allow_resume_on_other_world": True,
    "full_determinism": False,
    "arguments": {"adam_beta2": 0.99},
}
"""Another value for each knob of train."""

NEEDED = {"eval_strategy": {"eval_steps": 3}, "eval_steps": {"eval_strategy": "steps"}}
"""What else has to change with a knob for params to be right."""


@pytest.fixture
def facts(workspace, monkeypatch):
    """facts(**knobs): what decides a run of the workspace with these knobs of params.yaml."""
    monkeypatch.chdir(workspace.folder)

    def decide(seed=13, **knobs):
        workspace.params(**knobs)
        read = params.load_params()
        precision = read.train.precision
        return train.deciding(read, workspace.encoded, workspace.base, seed=seed, precision=precision)

    return decide


@pytest.mark.parametrize("knob", sorted(params.TrainParams.model_fields))
def test_each_knob_of_train_is_part_of_the_identity(facts, knob):
    plain = identity.digest(facts())
    changed = {f"train.{name}": value for name, value in {knob: OTHERS[knob], **NEEDED.get(knob, {})}.items()}
    assert identity.digest(facts(**changed)) != plain


def test_the_seed_is_part_of_the_identity(facts):
    assert identity.digest(facts(seed=14)) != identity.digest(facts())


@pytest.mark.parametrize("name", ["encoded", "base"])
def test_one_byte_of_an_input_is_part_of_the_identity(facts, workspace, tmp_path, name):
    plain = identity.digest(facts())
    other = tmp_path / "other"
    shutil.copytree(getattr(workspace, name), other)
    setattr(workspace, name, other)
    assert identity.digest(facts()) == plain
    file = max(other.rglob("*.*"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert identity.digest(facts()) != plain


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        ("identity", "versions", {"torch": "0.0.1"}),
        ("identity", "code_in_use", {"scoring.py": "0" * 64}),
        ("hardware", "kind", {"device": "another"}),
    ],
)
def test_versions_code_and_the_kind_of_machine_are_part_of_the_identity(facts, monkeypatch, module, name, value):
    plain = identity.digest(facts())
    monkeypatch.setattr(getattr(train, module), name, lambda: value)
    assert identity.digest(facts()) != plain


@pytest.mark.parametrize(
    "knob",
    [
        {"runtime.log_level": "debug"},
        {"runtime.save_steps": 7},
        {"runtime.dataloader_num_workers": 2},
        {"runtime.max_restarts": 3},
        {"runtime.encode_processes": 2},
        {"evaluate.batch_size": 8},
        {"export.opset": 19},
        {"test.seed": 99},
    ],
)
def test_what_can_not_matter_is_not_part_of_the_identity(facts, knob):
    assert identity.digest(facts(**knob)) == identity.digest(facts())


def test_another_clone_goes_on_with_what_this_one_began(workspace, tmp_path):
    """Its path, its log level and a file that nobody uses are others; its code and params are the same."""
    state = {"REMINT_STATE": str(tmp_path / "shared"), **ONE_THREAD}
    workspace.params(**{"runtime.save_steps": 3})
    assert workspace.run(BREAK_AT_STEP_7, environment=state).returncode == 9
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "stages", clone / "stages", ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "stages/tasks/unused.py").write_text('"""A task that nobody chose."""\n')
    there = Workspace(tmp_path / "there", workspace.encoded, workspace.base)
    there.params(**{"runtime.save_steps": 4, "runtime.log_level": "debug"})
    resumed = there.run(environment={**state, "PYTHONPATH": str(clone)})
    assert resumed.returncode == 0, resumed.stderr
    assert "going on from step 6" in resumed.stderr
    assert (there.folder / "models/checkpoints/13/checkpoint-10/manifest.json").is_file()


@pytest.mark.parametrize(("first", "second"), [(1, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_another_number_of_processes_starts_afresh_unless_params_allow_it(workspace, first, second):
    """Case 32."""
    site = resume_cells.SITE.read_text(encoding="utf-8")
    (workspace.folder / "sitecustomize.py").write_text(site, encoding="utf-8")
    killed = {
        "PYTHONPATH": f"{workspace.folder}:{ROOT}",
        "CELL_TRACE": str(workspace.folder / "trace"),
        "CELL_MASKED": "0",
        "CELL_KILL": "step 7",
    }
    knobs = {"runtime.save_steps": 3, "train.threads": None}
    workspace.params(**knobs, **{"train.processes": first})
    assert workspace.run(environment=killed).returncode == 4
    workspace.params(**knobs, **{"train.processes": second})
    afresh = workspace.run()
    assert afresh.returncode == 0, afresh.stderr
    assert f"this one but for its {first} process(es) has got to step 6" in afresh.stderr
    assert "train.allow_resume_on_other_world" in afresh.stderr
    assert "starting at step 0" in afresh.stderr
    plain = json.loads((workspace.folder / "models/checkpoints/13/checkpoint-10/manifest.json").read_text())
    assert "resumed_on_other_world" not in plain
    workspace.params(**knobs, **{"train.processes": second, "train.allow_resume_on_other_world": True})
    allowed = workspace.run()
    assert allowed.returncode == 0, allowed.stderr
    assert f"going on with the run of {first} process(es) on {second}: the rows of each step" in allowed.stderr
    assert "going on from step 6" in allowed.stderr
    for name in ("manifest.json", "training.json"):
        file = workspace.folder / "models/checkpoints/13/checkpoint-10" / name
        assert json.loads(file.read_text())["resumed_on_other_world"] == [{"step": 6, "processes": first}]
    assert len(workspace.history()) == 10


def test_states_are_rotated_by_step_whatever_their_times_say(workspace):
    """Case 22: two are kept, the newest by step, and the weights of each evaluation are all there."""
    workspace.params(**{"runtime.save_steps": 2, "train.num_train_epochs": 3.0})
    backwards = BREAK_AT_STEP_7.replace(
        "    if state.global_step == 7:",
        "    import os, pathlib\n"
        "    for saved in pathlib.Path(args.output_dir).glob('checkpoint-*'):\n"
        "        at = 10**9 - int(saved.name.split('-')[1])\n"
        "        os.utime(saved, (at, at))\n"
        "    if state.global_step == 13:",
    )
    assert workspace.run(backwards, environment=ONE_THREAD).returncode == 9
    (resume,) = (workspace.folder / "state").glob("*/resume")
    assert sorted(path.name for path in resume.iterdir()) == ["checkpoint-10", "checkpoint-12"]
    resumed = workspace.run(environment=ONE_THREAD)
    assert "going on from step 12" in resumed.stderr
    found = checkpoints.list_checkpoints(workspace.folder / "models/checkpoints/13")
    assert [checkpoints.step_of(one) for one in found] == [5, 10, 15]


def test_what_is_skipped_is_neither_read_nor_collated(workspace):
    count = """
    from stages.training import sampling
    plain, reads = sampling.EpochRows.__getitem__, []
    def read(self, index):
        reads.append(index)
        return plain(self, index)
    sampling.EpochRows.__getitem__ = read
    import atexit
    atexit.register(lambda: print("rows read:", len(reads), file=sys.stderr))
    """
    counted = BREAK_AT_STEP_7.replace("import sys\n", "import sys\n" + count.replace("\n    ", "\n"), 1)
    workspace.params(**{"runtime.save_steps": 3})
    assert workspace.run(counted, environment=ONE_THREAD).returncode == 9
    resumed = workspace.run(counted.replace("== 7", "== 99"), environment=ONE_THREAD)
    # Steps 7 to 9 of 8 rows, and step 10 of the one row that is left.
    assert "rows read: 25\n" in resumed.stderr


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory, encoded, base_with_dropout):
    """A training that ended at step 7, its states of steps 3 and 6."""
    made = Workspace(tmp_path_factory.mktemp("broken_off") / "run", encoded, base_with_dropout)
    made.params(**{"runtime.save_steps": 3})
    assert made.run(BREAK_AT_STEP_7, environment=ONE_THREAD).returncode == 9
    return made


@pytest.fixture
def broken(broken_off, tmp_path):
    """A copy of it."""
    folder = tmp_path / "copy"
    shutil.copytree(broken_off.folder, folder)
    return Workspace(folder, broken_off.encoded, broken_off.base)


@pytest.mark.parametrize("ruin", ["truncate the optimizer", "empty the folder", "drop a rank's generator", "zero it"])
def test_a_state_that_is_not_whole_is_passed_over(broken, ruin):
    """Case 21."""
    (newest,) = (broken.folder / "state").glob("*/resume/checkpoint-6")
    if ruin == "truncate the optimizer":
        os.truncate(newest / "optimizer.pt", 100)
    elif ruin == "empty the folder":
        shutil.rmtree(newest)
        newest.mkdir()
    elif ruin == "drop a rank's generator":
        (newest / "rng_state.pth").unlink()
    else:
        size = (newest / "scheduler.pt").stat().st_size
        (newest / "scheduler.pt").write_bytes(bytes(size))
    found, passed_over = checkpoints.newest_whole(newest.parent)
    assert found == newest.with_name("checkpoint-3")
    assert passed_over[0].startswith("checkpoint-6: ")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, broken_off):
    """The same training, that nobody broke off."""
    made = Workspace(tmp_path_factory.mktemp("undisturbed") / "run", broken_off.encoded, broken_off.base)
    made.params(**{"runtime.save_steps": 3})
    assert made.run(environment=ONE_THREAD).returncode == 0
    return made


@pytest.mark.parametrize("ruin", ["truncated", "gone"])
def test_weights_of_an_evaluation_that_are_not_whole_are_made_again(broken, undisturbed, ruin):
    """They were written at step 5, between two states that are whole, and no later step would write them."""
    (weights,) = (broken.folder / "state").glob("*/weights/checkpoint-5")
    if ruin == "truncated":
        os.truncate(weights / "model.safetensors", 100)
    else:
        shutil.rmtree(weights)
    resumed = broken.run(environment=ONE_THREAD)
    assert resumed.returncode == 0, resumed.stderr
    assert "not resuming from checkpoint-6: the weights of step 5: " in resumed.stderr
    assert "going on from step 3" in resumed.stderr
    assert broken.digests() == undisturbed.digests()


def test_a_torn_state_is_passed_over_for_the_one_before(broken, undisturbed):
    """Case 21."""
    (weights,) = (broken.folder / "state").glob("*/resume/checkpoint-6/model.safetensors")
    os.truncate(weights, 100)
    resumed = broken.run(environment=ONE_THREAD)
    assert resumed.returncode == 0, resumed.stderr
    assert "not resuming from checkpoint-6: model.safetensors has 100 bytes" in resumed.stderr
    assert "going on from step 3" in resumed.stderr
    assert broken.digests() == undisturbed.digests()


def test_other_params_start_afresh_and_leave_the_unfinished_run_where_it_is(broken):
    """Case 2."""
    broken.params(**{"runtime.save_steps": 3, "train.learning_rate": 1e-3})
    assert "starting at step 0" in broken.run(environment=ONE_THREAD).stderr
    broken.params(**{"runtime.save_steps": 100})
    assert "going on from step 6" in broken.run(environment=ONE_THREAD).stderr


def test_where_all_states_are_torn_it_says_so_and_starts_afresh(broken):
    """Case 21."""
    for weights in (broken.folder / "state").glob("*/resume/*/model.safetensors"):
        os.truncate(weights, 100)
    resumed = broken.run(environment=ONE_THREAD)
    assert resumed.returncode == 0
    assert "not resuming from checkpoint-6" in resumed.stderr
    assert "not resuming from checkpoint-3" in resumed.stderr
    assert "starting at step 0" in resumed.stderr


def test_two_ranks_hold_the_same_weights_after_an_evaluation_and_three_steps(workspace):
    """Case 33a: Trainer leaves a model unwrapped that was evaluated before it was trained."""
    (workspace.folder / "sitecustomize.py").write_text(
        "import hashlib, os\n"
        "if 'RANK' in os.environ:\n"
        "    from stages.training import training_state\n"
        "    def end(self, args, state, control, model=None, **_):\n"
        "        if state.global_step == 8:\n"
        "            parts = [bytes(p.detach().numpy().tobytes()) for p in model.parameters()]\n"
        "            digest = hashlib.sha256(b''.join(parts)).hexdigest()\n"
        "            open(f'weights.{os.environ[\"RANK\"]}', 'w').write(digest)\n"
        "    training_state.ShowProgress.on_step_end = end\n"
    )
    workspace.params(**{"train.processes": 2})
    result = workspace.run(environment={"PYTHONPATH": f"{workspace.folder}:{ROOT}"})
    assert result.returncode == 0, result.stderr
    assert (workspace.folder / "weights.0").read_text() == (workspace.folder / "weights.1").read_text()


OWN_HOST_NAME = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", 'hostname no-such-host; exec "$@"', "sh"]


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*OWN_HOST_NAME, "true"], check=False).returncode != 0,
    reason="this system lets nobody take a host name of their own (unshare --uts)",
)
def test_a_host_name_that_does_not_resolve_keeps_no_ranks_apart(workspace):
    workspace.params(**{"train.processes": 2, "train.num_train_epochs": 1.0})
    out = [workspace.folder / "models/checkpoints/13", workspace.folder / "models/history/13.csv", "13"]
    arguments = [sys.executable, "-m", "stages.launch", "stages.train", workspace.encoded, workspace.base, *out]
    ours = {"PYTHONPATH": str(ROOT), "REMINT_STATE": str(workspace.folder / "state")}
    done = subprocess.run(
        [*OWN_HOST_NAME, *arguments],
        cwd=workspace.folder,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(out[0], "checkpoint-5/manifest.json").is_file()


@pytest.mark.gpu
def test_a_training_on_a_gpu_ends_in_the_same_bytes_after_a_break(workspace, tmp_path):
    """With full_determinism, in the precision that this GPU is given, dropout on."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    knobs = {"runtime.save_steps": 3, "train.max_rows_per_device": 2, "train.precision": "auto"}
    knobs["train.full_determinism"] = True
    undisturbed = Workspace(tmp_path / "undisturbed", workspace.encoded, workspace.base)
    for each in (undisturbed, workspace):
        each.params(**knobs)
    assert undisturbed.run().returncode == 0
    broken = workspace.run(BREAK_AT_STEP_7)
    assert broken.returncode == 9, broken.stderr
    resumed = workspace.run()
    assert resumed.returncode == 0, resumed.stderr
    assert "going on from step 6" in resumed.stderr
    assert workspace.digests() == undisturbed.digests()
