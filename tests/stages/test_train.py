"""One process: in this process. Several: through stages.launch, as dvc.yaml does it."""

import json
import os
import re
import shutil
import signal

import psutil
import pytest

from stages import checkpoints
from stages.errors import ParamsError
from stages.training import finished
from tests import tiny
from tests.training_runs import BREAK_AT_STEP_7, Workspace, descendants, encode, start, wait_for

ROOT = tiny.ROOT


@pytest.fixture(scope="module", params=["single_label", "regression"])
def task_and_rows(request, base, tmp_path_factory):
    return request.param, encode(tmp_path_factory.mktemp(request.param) / "encoded", base, request.param)


def close(histories, columns=("loss", "grad_norm")):
    """Every history's columns agree with the first one's to 1e-5, relatively."""
    first, *others = histories
    for other in others:
        assert len(other) == len(first)
        for row, expected in zip(other, first, strict=True):
            assert [float(row[c]) for c in columns] == pytest.approx([float(expected[c]) for c in columns], rel=1e-5)
        evaluated = {name: float(value) for name, value in first[-1].items() if name.startswith("eval_")}
        assert len(evaluated) == 2
        assert {name: float(other[-1][name]) for name in evaluated} == pytest.approx(evaluated, rel=1e-5)


def test_losses_and_gradients_do_not_depend_on_how_the_global_batch_is_cut(tmp_path, task_and_rows, base):
    """Cases 27 and 28: rows of unequal length, a last batch of one row, 13 rows to evaluate, and two ranks."""
    task_type, rows = task_and_rows
    metric = {"single_label": "f1_macro", "regression": "mse"}[task_type]
    smoothing = {"single_label": 0.1, "regression": 0.0}[task_type]
    watched = {"single_label": "log_loss", "regression": "mse"}[task_type]
    histories = []
    for cut in ({}, {"train.max_rows_per_device": 2}, {"train.processes": 2}):
        workspace = Workspace(tmp_path / str(len(histories)), rows, base)
        workspace.params(
            **{
                "task.type": task_type,
                "select_best.metric": metric,
                "train.num_train_epochs": 1.0,
                "train.label_smoothing_factor": smoothing,
                "train.early_stopping": {"metric": watched, "patience": 9, "min_delta": 0.0},
                **cut,
            }
        )
        result = workspace.run()
        assert result.returncode == 0, result.stderr
        histories.append(workspace.history())
    assert len(histories[0]) == 5
    close(histories)


def test_each_evaluation_leaves_whole_weights_and_nothing_else(workspace):
    workspace.params()
    assert workspace.run().returncode == 0
    out = workspace.folder / "models/checkpoints/13"
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint-10", "checkpoint-5"]
    assert [checkpoint.name for checkpoint in checkpoints.list_checkpoints(out)] == ["checkpoint-5", "checkpoint-10"]
    assert not list(out.rglob("*.bin"))
    assert not list(out.rglob("optimizer*"))
    assert [path.name for path in out.parent.iterdir()] == ["13"]
    config = json.loads((out / "checkpoint-5/config.json").read_text())
    assert config["id2label"] == {"0": "billing", "1": "delivery", "2": "refund"}


def test_a_training_that_broke_off_goes_on_and_ends_in_the_same_bytes(workspace, tmp_path):
    """Case 1, with dropout on and a mean over logging steps that the break falls into."""
    knobs = {"runtime.save_steps": 3, "train.logging_steps": 4, "train.max_rows_per_device": 2}
    undisturbed = Workspace(tmp_path / "undisturbed", workspace.encoded, workspace.base)
    one_thread = {"OMP_NUM_THREADS": "1"}
    for each in (undisturbed, workspace):
        each.params(**knobs)
    assert undisturbed.run(environment=one_thread).returncode == 0
    broken = workspace.run(BREAK_AT_STEP_7, environment=one_thread)
    assert broken.returncode == 9, broken.stderr
    assert not (workspace.folder / "models/checkpoints/13").exists()
    resumed = workspace.run(environment=one_thread)
    assert resumed.returncode == 0, resumed.stderr
    assert "going on from step 6" in resumed.stderr
    assert workspace.digests() == undisturbed.digests()


def test_one_process_gives_the_same_weights_with_and_without_torchrun(workspace):
    """Case 33; accumulation 4, where DistributedDataParallel of one process gave other bits."""
    workspace.params(**{"train.max_rows_per_device": 2})
    assert workspace.run().returncode == 0
    launched = workspace.digests()
    own_state = {"REMINT_STATE": str(workspace.folder / "state2"), "OMP_NUM_THREADS": "1"}
    plain = "import sys; from pathlib import Path; from stages import command, train; command.run(train.main)"
    assert workspace.run(plain, environment=own_state).returncode == 0
    assert workspace.digests() == launched


def test_a_training_that_ended_is_not_done_again(workspace):
    workspace.params()
    assert workspace.run().returncode == 0
    before = workspace.digests()
    again = workspace.run()
    assert "step" not in again.stderr.replace("steps", "")
    assert workspace.digests() == before


SLOW_RANK_ZERO = """
import os, time
if os.environ.get("RANK") == "0":
    from stages.training import finished
    remove = finished.remove_recorded
    finished.remove_recorded = lambda *a, **k: time.sleep(3) or remove(*a, **k)
"""


def test_all_processes_agree_on_whether_a_training_has_ended(workspace):
    """Rank zero removes what is recorded, for a training that is run again by force, while the others look at it."""
    workspace.params(**{"train.processes": 2, "train.num_train_epochs": 1.0})
    assert workspace.run().returncode == 0
    before = workspace.digests()
    digest = finished.dvc_digest(workspace.folder / "models/checkpoints/13")
    (workspace.folder / "dvc.lock").write_text(f"md5: {digest}")
    (workspace.folder / "sitecustomize.py").write_text(SLOW_RANK_ZERO)
    again = workspace.run(environment={"PYTHONPATH": f"{workspace.folder}:{ROOT}"})
    assert again.returncode == 0, again.stderr
    assert "starting at step 0" in again.stderr
    assert workspace.digests() == before


def test_training_stops_early_where_evaluations_bring_nothing_better(workspace):
    stopping = {"metric": "accuracy", "patience": 1, "min_delta": 2.0}
    workspace.params(**{"train.early_stopping": stopping, "train.num_train_epochs": 5.0})
    assert workspace.run().returncode == 0
    found = checkpoints.list_checkpoints(workspace.folder / "models/checkpoints/13")
    assert [checkpoint.name for checkpoint in found] == ["checkpoint-5", "checkpoint-10"]
    assert workspace.history()[-1]["eval_accuracy"]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        (
            {"train.early_stopping": {"metric": "f1_binary", "patience": 1, "min_delta": 0.0}},
            "f1_binary is not defined for these labels; there are eval_loss, f1_macro, accuracy",
        ),
        (
            {"select_best.metric": "f1_binary"},
            "f1_binary is not defined for these labels; there are f1_macro, accuracy",
        ),
    ],
)
def test_a_metric_that_these_labels_do_not_have_is_refused_before_the_first_step(workspace, knobs, message):
    """Case 23: three labels, a metric for two."""
    workspace.params(**knobs)
    result = workspace.run()
    assert result.returncode == ParamsError.exit_code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_one_rank_s_error_ends_all_with_the_first_traceback(workspace):
    """Case 31, in an evaluation; two ranks, of which the second fails."""
    (workspace.folder / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('RANK') == '1':\n"
        "    import stages.scoring\n"
        "    def broken(*_, **__): raise ValueError('rank one is broken')\n"
        "    stages.scoring.batches = broken\n"
    )
    workspace.params(**{"train.processes": 2})
    result = workspace.run(environment={"PYTHONPATH": f"{workspace.folder}:{ROOT}"})
    assert result.returncode == 1
    assert result.stderr.count("ValueError: rank one is broken") == 1
    assert "Traceback" in result.stderr
    assert not (workspace.folder / "models/checkpoints/13").exists()


def test_weights_that_are_not_those_of_the_config_are_refused(base, encoded, tmp_path):
    from safetensors.numpy import load_file, save_file

    other = tmp_path / "other"
    shutil.copytree(base, other)
    weights = load_file(other / "model.safetensors")
    save_file({f"other.{name}": value for name, value in weights.items()}, other / "model.safetensors")
    workspace = Workspace(tmp_path, encoded, other)
    workspace.params()
    result = workspace.run()
    assert result.returncode == 2
    assert "its config.json and its safetensors are not of the same model" in result.stderr


LONG = {"train.num_train_epochs": 400.0, "train.eval_strategy": "steps", "train.eval_steps": 40}


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_stop_signal_saves_at_once_and_exits_with_5(workspace, ranks):
    workspace.params(**LONG, **{"train.processes": ranks, "runtime.save_steps": 10**6})
    process = start(workspace)
    wait_for("step 40:", process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert "the same command goes on from" in said
    (saved,) = (workspace.folder / "state").glob("*/resume/checkpoint-*")
    assert checkpoints.fault(saved) is None
    assert not (workspace.folder / "models/checkpoints/13").exists()
    again = start(workspace)
    wait_for(f"going on from step {checkpoints.step_of(saved)}", again)
    os.killpg(again.pid, signal.SIGKILL)
    again.communicate()


@pytest.mark.parametrize("victim", ["launcher", "one rank"])
def test_nobody_outlives_a_process_that_is_killed(workspace, victim):
    """Cases 3 and 30: SIGKILL, which nobody can pass on."""
    workspace.params(**LONG, **{"train.processes": 2})
    process = start(workspace)
    wait_for("step 40:", process)
    family = descendants(process)
    assert len(family) >= 2
    (process if victim == "launcher" else family[-1]).kill()
    process.communicate(timeout=45)  # the reader of its log returns
    _, alive = psutil.wait_procs(family, timeout=35)
    assert alive == []


SPOIL = """
import os
import re
if 'RANK' in os.environ:
    from stages.tasks import single_label
    plain, calls = single_label.loss, [0]
    def loss(outputs, labels, **kwargs):
        calls[0] += 1
        if calls[0] == 5 and WHAT == 'gradient norm':
            outputs['logits'].register_hook(lambda gradient: gradient * float('inf'))
        return plain(outputs, labels, **kwargs) * (float('nan') if calls[0] == 5 and WHAT == 'loss' else 1.0)
    single_label.loss = loss
"""


@pytest.mark.parametrize(("what", "value"), [("loss", "nan"), ("gradient norm", "(nan|inf)")])
def test_a_loss_or_gradient_that_is_no_number_stops_at_its_step_and_names_the_rows(workspace, what, value):
    """Case 25: the fifth micro-batch is of step 5."""
    (workspace.folder / "sitecustomize.py").write_text(f"WHAT = {what!r}\n{SPOIL}")
    workspace.params()
    result = workspace.run(environment={"PYTHONPATH": f"{workspace.folder}:{ROOT}"})
    assert result.returncode == 1
    message = rf"error: step 5: the {what} is {value}; the batch's rows are \d+ \(from 0"
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    assert not (workspace.folder / "models/checkpoints/13").exists()


STARVE = """
import os
import re
if 'RANK' in os.environ:
    from stages.tasks import single_label
    def loss(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: 9 bytes")
    single_label.loss = loss
"""


def test_memory_that_runs_out_is_the_machine_s_fault_and_says_what_to_lower(workspace):
    (workspace.folder / "sitecustomize.py").write_text(STARVE)
    workspace.params()
    result = workspace.run(environment={"PYTHONPATH": f"{workspace.folder}:{ROOT}"})
    assert result.returncode == 4
    assert "step 1: out of memory with 8 rows at once, the longest of" in result.stderr
    assert "lower train.max_rows_per_device" in result.stderr


BREAK_BEFORE_MARK = """
import sys
from pathlib import Path
from stages import train
from stages.training import finished
def fail(*_): raise SystemExit(9)
finished.mark = fail
*paths, seed = sys.argv[1:]
train.main(*map(Path, paths), int(seed))
"""


@pytest.mark.parametrize(
    "knobs",
    [
        {"train.max_steps": 7},
        {
            "train.num_train_epochs": 5.0,
            "train.eval_strategy": "steps",
            "train.eval_steps": 3,
            "runtime.save_steps": 3,
            "train.early_stopping": {"metric": "accuracy", "patience": 1, "min_delta": 2.0},
        },
    ],
    ids=["the last step in an epoch's middle", "early stopping"],
)
def test_a_training_killed_after_its_last_step_makes_no_further_one(workspace, tmp_path, knobs):
    one_thread = {"OMP_NUM_THREADS": "1"}
    undisturbed = Workspace(tmp_path / "undisturbed", workspace.encoded, workspace.base)
    for each in (undisturbed, workspace):
        each.params(**knobs)
    assert undisturbed.run(environment=one_thread).returncode == 0
    assert workspace.run(BREAK_BEFORE_MARK, environment=one_thread).returncode == 9
    assert workspace.run(environment=one_thread).returncode == 0
    assert workspace.digests() == undisturbed.digests()


def test_the_identity_covers_the_code_of_the_chosen_task_and_of_the_early_stopping_metric(workspace):
    """In a process of its own: what is imported by then is the code in use."""
    workspace.params(**{"train.early_stopping": {"metric": "accuracy", "patience": 1, "min_delta": 0.0}})
    script = """
from stages import identity, train
from stages.params import load_params
train.import_chosen(load_params())
print(*identity.code_in_use())
"""
    used = workspace.run(script).stdout.split()
    assert {"tasks/single_label.py", "sequences.py", "metrics/accuracy.py"} <= set(used)
