import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version

import pytest

from stages import check_run, needs, versions
from stages.errors import EnvironmentMismatchError, MachineError, ModelError
from stages.params import load_params
from tests import tiny

GIB = 2**30


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def project(tmp_path, monkeypatch, model):
    """A folder with params, raw data and a lock file that are as they should be."""
    tiny.write_csv(tmp_path / "data/raw/tickets.csv", tiny.rows(40))
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/stages.txt").write_text(f"numpy=={version('numpy')}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REMINT_STATE", str(tmp_path / "state"))
    describe(tmp_path, model)
    return tmp_path


def describe(project, model, **overrides):
    digest = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    tiny.write_params(project / "params.yaml", **{"model.name": str(model), "model.sha256": digest, **overrides})
    return load_params(project / "params.yaml")


def run(project):
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    command = [sys.executable, "-m", "stages.check_run"]
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def test_a_line_for_each_thing_that_is_right_and_nothing_is_written(project):
    before = sorted(project.rglob("*"))
    code, out, err = run(project)
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "params",
        "versions",
        "data",
        "data",
        "model",
        "device",
        "memory",
        "disk",
    ]
    assert "precision fp32; 1 threads in each of 1 process(es)" in out
    assert "2 checkpoint(s) of each of 1 seed(s)" in out
    assert sorted(project.rglob("*")) == before


def test_all_that_is_wrong_is_named_at_once(project, model):
    (project / "requirements/stages.txt").write_text("numpy==0.1\nno-such-package-at-all==1.0\n")
    describe(project, model, **{"model.sha256": "0" * 64, "data.columns.label": "lable"})
    code, _, err = run(project)
    assert code == 2
    assert f"numpy: {version('numpy')} installed, requirements/stages.txt says ==0.1" in err
    assert "no-such-package-at-all: none installed" in err
    assert "lable" in err
    assert "channel" in err
    assert "model.sha256: the weights of" in err


def test_a_mistake_in_params_is_named(project, model):
    describe(project, model)
    (project / "params.yaml").write_text("seeds: [13]\n")
    code, _, err = run(project)
    assert code == 2
    assert "train: it is missing" in err


def test_versions_are_compared_without_the_local_part_and_only_where_a_marker_applies(tmp_path, monkeypatch):
    installed = {"torch": "2.13.0+cpu", "numpy": "2.4.6"}
    monkeypatch.setattr(versions, "version", installed.__getitem__)
    lock = tmp_path / "stages.txt"
    lock.write_text("# made by make lock\ntorch==2.13.0\nnumpy==2.4.6  # why\nother==1; sys_platform == 'nowhere'\n")
    assert check_run.check_versions(lock) == [f"versions: 2 packages are as {lock} says"]
    lock.write_text("torch==2.12.0\nnumpy==2.4.6\n")
    with pytest.raises(EnvironmentMismatchError) as caught:
        check_run.check_versions(lock)
    assert str(caught.value) == f"torch: 2.13.0+cpu installed, {lock} says ==2.12.0; run make install"


def test_a_model_folder_without_a_config_is_named(project, model, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"config\.json"):
        check_run.local_model(describe(project, model, **{"model.name": str(tmp_path / "empty")}))
    with pytest.raises(ModelError, match="there is no such folder"):
        check_run.local_model(describe(project, model, **{"model.name": "./nowhere"}))


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_a_config_that_is_not_readable_is_named(project, model, tmp_path, text):
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "config.json").write_text(text, encoding="latin-1")
    params = describe(project, broken)
    with pytest.raises(ModelError, match=r"broken: config\.json .*get it again"):
        check_run.local_model(params)


def test_a_model_of_the_hub_is_not_asked_for(project, model):
    params = describe(project, model, **{"model.name": "owner/name", "model.sha256": None, "model.revision": "main"})
    assert check_run.local_model(params) is None
    assert "comes from the Hub" in check_run.check_model(params)[0]


def test_too_little_disk_is_a_matter_of_the_machine(project, model, monkeypatch):
    params = describe(project, model)
    whole = os.statvfs(project)
    found = check_run.local_model(params)
    assert check_run.check_disk(params, found)

    class Full:
        f_bavail, f_frsize = 1, whole.f_frsize

    monkeypatch.setattr(check_run.os, "statvfs", lambda _: Full)
    with pytest.raises(MachineError, match=r"of the 0\.0 MB that are free at .*; free some"):
        check_run.check_disk(params, found)


def test_the_number_of_parameters_is_read_from_the_weights_alone(model):
    from safetensors import safe_open

    with safe_open(model / "model.safetensors", framework="numpy") as tensors:
        counted = sum(tensors.get_tensor(name).size for name in tensors.keys())  # noqa: SIM118
    assert needs.parameters([model / "model.safetensors"]) == counted > 1000


@pytest.mark.parametrize(
    ("overrides", "rows", "expected"),
    [
        ({"train.num_train_epochs": 3.0}, None, 3),
        ({"train.num_train_epochs": 2.5}, None, 3),
        ({"train.max_steps": 100, "train.eval_strategy": "steps", "train.eval_steps": 30}, None, 3),
        ({"train.max_steps": 100}, 80, 10),
        ({"train.max_steps": 100}, None, None),
        ({"train.eval_strategy": "steps", "train.eval_steps": 4}, 80, 5),
        ({"train.eval_strategy": "steps", "train.eval_steps": 4}, None, None),
    ],
)
def test_evaluations_are_counted_as_trainer_does(project, model, overrides, rows, expected):
    assert needs.evaluations(describe(project, model, **overrides).train, rows) == expected


def test_disk_grows_by_each_seed_and_each_evaluation(project, model):
    def takes(**overrides):
        params = describe(project, model, **overrides)
        return needs.disk(params, parameters=1_000_000, evaluations=5, raw_bytes=10)

    one, two = takes(), takes(seeds=[1, 2])
    assert two["checkout"] - one["checkout"] == 2 * 5 * 4_000_000
    assert two["state"] == 2 * one["state"] == 2 * (5 * 4_000_000 + 2 * 12_000_000)
    assert takes(**{"export.int8": "off"})["checkout"] == one["checkout"] - 2_000_000


def test_memory_grows_by_parameters_rows_and_length(project, model):
    config = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}

    def takes(precision="fp32", parameters=22_000_000, **overrides):
        params = describe(project, model, **overrides)
        return needs.memory(params, parameters=parameters, config=config, precision=precision)

    assert takes(parameters=0) * 2 == takes(parameters=0, **{"train.batch_size": 16})
    assert takes(parameters=0) == 2 * takes(parameters=0, precision="bf16")
    assert takes(parameters=0, **{"train.max_rows_per_device": 2}) * 4 == takes(parameters=0)
    assert takes() - takes(parameters=0) == 16 * 22_000_000
    assert takes(**{"train.optim": "sgd"}) < takes()
    assert takes() < GIB
    config = {**config, "hidden_size": None}
    assert takes(parameters=1) - takes(parameters=0) == 16


def test_rows_to_train_on_are_estimated_from_a_sample(project, model, monkeypatch):
    tiny.write_csv(project / "data/raw/tickets.csv", tiny.rows(3000))
    params = describe(project, model)
    assert check_run.train_rows(params) == pytest.approx(3000 * 0.7, rel=0.1)
    assert check_run.train_rows(describe(project, model, **{"prepare.max_rows": 50})) == 50
