"""A Hub data set becomes Parquet files, the same bytes each time; for local data there is only a marker."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import fetch_data
from tests import fake_hub, tiny

CLASSES = ["billing", "delivery", "refund"]
CARD = """---
configs:
- config_name: default
  data_files:
  - {split: train, path: data/train.parquet}
  - {split: test, path: data/test.parquet}
- config_name: other
  data_files:
  - {split: train, path: data/test.parquet}
---
"""
HUB = {"name": "own/rows", "config": "default", "revision": "main"}


def parquet(ids: list[int | None]) -> bytes:
    """A split as Dataset.push_to_hub writes it, with class ids as labels."""
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=CLASSES), "count": Value("int64")})
    rows = {"text": [f"text {index}" for index in range(len(ids))], "label": ids, "count": list(range(len(ids)))}
    sink = io.BytesIO()
    pq.write_table(Dataset.from_dict(rows, features=features).with_format("arrow")[:], sink)
    return sink.getvalue()


def repository() -> fake_hub.Repository:
    files = {
        "README.md": CARD.encode(),
        "data/train.parquet": parquet([2, 0, 1, None]),
        "data/test.parquet": parquet([-1, -1]),
    }
    return fake_hub.Repository(files)


def fetch(folder: Path, environment: dict[str, str], **hub: Any) -> subprocess.CompletedProcess[str]:
    """The stage as a command; data/fetched is its output."""
    folder.mkdir(parents=True, exist_ok=True)
    knobs = {"data.hub": {**HUB, **hub}, "data.raw": "data/fetched", "data.format": "parquet"}
    tiny.write_params(folder / "params.yaml", **knobs)
    return subprocess.run(
        [sys.executable, "-m", "stages.fetch_data", "data/fetched"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tiny.ROOT), "HF_DATASETS_OFFLINE": "0", **environment},
        capture_output=True,
        text=True,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_each_split_of_a_hub_set_is_a_file_and_the_same_bytes_again(tmp_path: Path):
    with fake_hub.serving(datasets__own__rows=repository()) as hub:
        first = fetch(tmp_path / "one", hub.environment(tmp_path / "home"))
        assert first.returncode == 0, first.stderr
        (tmp_path / "other" / "own" / "rows").mkdir(parents=True)  # a folder of that name is not what was meant
        second = fetch(tmp_path / "other", hub.environment(tmp_path / "another_home"))
        assert second.returncode == 0, second.stderr
    fetched = tmp_path / "one" / "data" / "fetched"
    assert sorted(contents(fetched)) == ["source.json", "test.parquet", "train.parquet"]
    assert contents(tmp_path / "other" / "data" / "fetched") == contents(fetched)
    train = pq.read_table(fetched / "train.parquet")
    assert train.to_pydict() == {
        "text": ["text 0", "text 1", "text 2", "text 3"],
        "label": ["refund", "billing", "delivery", None],
        "count": [0, 1, 2, 3],
    }
    assert train.schema.metadata is None
    assert pq.read_table(fetched / "test.parquet")["label"].to_pylist() == ["-1", "-1"]
    source = json.loads((fetched / "source.json").read_text())
    assert {**HUB, "commit": "a" * 40}.items() <= source.items()
    assert {name: file["rows"] for name, file in source["files"].items()} == {"train.parquet": 4, "test.parquet": 2}
    assert not list((tmp_path / "home").rglob("*.arrow")), "no converted copy stays in the caches"


def test_what_the_hub_does_not_have_is_the_users_mistake(tmp_path: Path):
    with fake_hub.serving(datasets__own__rows=repository()) as hub:
        environment = hub.environment(tmp_path / "home")
        ended = {
            "data.hub.name own/row: the Hub has no such dataset": fetch(tmp_path, environment, name="own/row"),
            "data.hub.revision v9: own/rows has no such": fetch(tmp_path, environment, revision="v9"),
            "'default', 'other'": fetch(tmp_path, environment, config="another"),
        }
    for finding, process in ended.items():
        assert process.returncode == 2, process.stderr
        assert finding in process.stderr
        assert "Traceback" not in process.stderr
    assert not (tmp_path / "data" / "fetched").exists()


def test_a_set_without_rows_or_with_a_script_is_refused_with_what_to_do(tmp_path: Path):
    empty = fake_hub.Repository({"README.md": b"nothing\n"})
    script = fake_hub.Repository({"script.py": b"raise SystemExit('ran')\n", "README.md": b"\n"})
    broken = fake_hub.Repository({"README.md": CARD.encode(), "data/train.parquet": b"PAR1", "data/test.parquet": b""})
    with fake_hub.serving(
        datasets__own__empty=empty, datasets__own__script=script, datasets__own__broken=broken
    ) as hub:
        environment = hub.environment(tmp_path / "home")
        nothing = fetch(tmp_path, environment, name="own/empty", config=None)
        code = fetch(tmp_path, environment, name="own/script", config=None)
        torn = fetch(tmp_path, environment, name="own/broken")
    assert (nothing.returncode, code.returncode, torn.returncode) == (2, 2, 2), (
        nothing.stderr + code.stderr + torn.stderr
    )
    assert "data.hub.name own/empty: not loaded" in nothing.stderr
    assert "refs/convert/parquet" in code.stderr
    assert "data.hub.name own/broken: not loaded" in torn.stderr


@pytest.mark.parametrize(
    ("environment", "revision", "finding"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_OFFLINE": "0"}, "main", "the Hub can't be reached"),
        ({"HF_HUB_OFFLINE": "1"}, "main", "HF_HUB_OFFLINE is set"),
        ({"HF_HUB_OFFLINE": "1"}, "b" * 40, "the Hub can't be reached"),
    ],
)
def test_without_a_hub_it_is_the_machine_that_gave_out(
    tmp_path: Path, environment: dict[str, str], revision: str, finding: str
):
    ended = fetch(tmp_path, {"HF_HOME": str(tmp_path / "home"), **environment}, revision=revision)
    assert ended.returncode == 4, ended.stderr
    assert finding in ended.stderr
    assert "data.raw to files of your own" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_for_local_data_there_is_a_marker_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    tiny.write_params(Path("params.yaml"))
    fetch_data.main(Path("data/fetched"))
    first = contents(Path("data/fetched"))
    fetch_data.main(Path("data/fetched"))
    assert list(first) == ["source.json"]
    assert contents(Path("data/fetched")) == first


def test_only_class_ids_become_names():
    rows = pa.table({"label": pa.array([1, -1, None, 0]), "other": pa.array([1, 0, 1, 0])})
    named = fetch_data.named_labels(rows, {"label": ["no", "yes"]})
    assert named.to_pydict() == {"label": ["yes", "-1", None, "no"], "other": [1, 0, 1, 0]}
