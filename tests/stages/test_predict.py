import csv
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import pipeline

from stages import lookup, predict, scoring, tasks
from stages.errors import DataError, ModelError, UserError
from tests import tiny, tiny_export

ADDED = ["prediction", *(f"probability_{name}" for name in tiny_export.LABELS)]
TABLE = [
    {**row, "text": f"{row['text']} {extra}", "note": extra}
    for row, extra in zip(
        tiny.rows(30), ["", "007", "NA", "null", 'a "quote"', "x, y", "été 🙂", "1.0", "\\n"] * 4, strict=False
    )
]
FORBIDDEN = ("torch", "transformers", "datasets", "dvc", "prefect", "sklearn", "scipy", "evaluate", "onnx", "pandas")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_export.run(tiny_export.workspace(tmp_path_factory.mktemp("single")))


@pytest.fixture(scope="module")
def expected(exported: Path) -> list[dict[str, Any]]:
    """What transformers predicts for TABLE, a row at a time."""
    classify = pipeline("text-classification", model=str(exported), top_k=None, max_length=32, truncation=True)
    found = []
    for row in TABLE:
        scores = {score["label"]: score["score"] for score in classify([row["text"]])[0]}
        probabilities = {f"probability_{name}": scores[name] for name in tiny_export.LABELS}
        found.append({"prediction": max(scores, key=scores.__getitem__), **probabilities})
    assert len({row["prediction"] for row in found}) > 1
    return found


def write(path: Path, table: list[dict[str, str]]) -> Path:
    if path.suffix == ".csv":
        return tiny.write_csv(path, table)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    else:
        lines = [list(table[0]), *(row.values() for row in table)]
        path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(encoding="utf-8", newline="") as stream:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in stream]
        quoting = csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL
        return list(csv.DictReader(stream, delimiter="\t" if path.suffix == ".tsv" else ",", quoting=quoting))


def check(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [{key: row[key] for key in TABLE[0]} for row in found] == TABLE
    assert [list(row) for row in found] == [[*TABLE[0], *ADDED]] * len(TABLE)
    assert [row["prediction"] for row in found] == [row["prediction"] for row in expected]
    for name in ADDED[1:]:
        assert np.allclose([float(row[name]) for row in found], [row[name] for row in expected], atol=1e-4)


def command(*arguments: Path | str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    words = [sys.executable, "-m", "stages.predict", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, check=False, **more)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_rows_of_any_format_keep_their_columns_and_order_and_get_predictions(
    exported: Path, expected: list[dict[str, Any]], tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"out.{suffix}"
    predict.main(exported, write(tmp_path / f"rows.{suffix}", TABLE), out)
    check(read(out), expected)


def test_one_format_becomes_another(exported: Path, expected: list[dict[str, Any]], tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.tsv", TABLE)
    predict.main(exported, rows, tmp_path / "out.jsonl")
    check(read(tmp_path / "out.jsonl"), expected)
    predict.main(exported, rows, tmp_path / "no_ending", output_format="parquet")
    check(pq.read_table(tmp_path / "no_ending").to_pylist(), expected)


@pytest.mark.parametrize("chunk", [1, 7, 30])
def test_rows_that_come_in_chunks_are_the_same(
    exported: Path, expected: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(predict, "CHUNK", chunk)
    predict.main(exported, write(tmp_path / "rows.csv", TABLE), tmp_path / "out.csv", batch_size=4, threads=1)
    check(read(tmp_path / "out.csv"), expected)


def test_standard_input_and_output(exported: Path, expected: list[dict[str, Any]], tmp_path: Path) -> None:
    ended = command(exported, "-", "-", input=write(tmp_path / "rows.csv", TABLE).read_bytes())
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "out.csv").write_bytes(ended.stdout)
    check(read(tmp_path / "out.csv"), expected)
    assert ended.stderr == b"30 rows -> standard output\n"
    rows = write(tmp_path / "rows.jsonl", TABLE).read_bytes()
    ended = command(exported, "-", "-", "--format", "jsonl", "--output-format", "parquet", input=rows)
    (tmp_path / "out.parquet").write_bytes(ended.stdout)
    check(read(tmp_path / "out.parquet"), expected)


def test_whoever_reads_standard_output_may_stop(exported: Path, tmp_path: Path) -> None:
    rows = tiny.write_csv(tmp_path / "rows.csv", tiny.rows(10_000))
    words = f"{sys.executable} -m stages.predict {exported} {rows} - | head -1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(tiny.ROOT)}
    ended = subprocess.run(["bash", "-c", words], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[0].startswith("id,text,")
    assert ended.stdout.splitlines()[1] == "0"
    assert ended.stderr == ""


def test_the_int8_model_predicts_on_request(exported: Path, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", TABLE)
    for name, int8 in (("whole.csv", False), ("int8.csv", True)):
        predict.main(exported, rows, tmp_path / name, int8=int8)
    whole, small = (read(tmp_path / name) for name in ("whole.csv", "int8.csv"))
    differences = [abs(float(a[ADDED[1]]) - float(b[ADDED[1]])) for a, b in zip(whole, small, strict=True)]
    assert 0 < max(differences) < 0.3


def test_an_int8_model_that_was_left_out_is_not_replaced_by_another(exported: Path, tmp_path: Path) -> None:
    without = tmp_path / "exported"
    shutil.copytree(exported, without)
    (without / "model.int8.onnx").unlink()
    with pytest.raises(ModelError, match=r"model\.int8\.onnx: there is no such file; .*parity\.json says why"):
        predict.main(without, write(tmp_path / "rows.csv", TABLE), tmp_path / "out.csv", int8=True)


def test_numbers_are_predicted_for_pairs(tmp_path: Path) -> None:
    exported = tiny_export.run(tiny_export.workspace(tmp_path, task_type="regression", pair=True))
    table = tiny.rows(12)
    predict.main(exported, write(tmp_path / "rows.csv", table), tmp_path / "out.csv")
    found = read(tmp_path / "out.csv")
    assert list(found[0]) == [*table[0], "prediction"]
    texts = [[row[name] for row in table] for name in ("text", "text_pair")]
    batch = scoring.load_tokenizer(exported)(*texts, padding=True, return_tensors="pt")
    expected = scoring.load_forward(exported, lookup.find(tasks, "regression"))(batch)[:, 0]
    assert np.allclose([float(row["prediction"]) for row in found], expected, atol=1e-4)


def test_a_header_without_rows_gives_a_header(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,text\n", encoding="utf-8")
    for suffix in ("csv", "parquet", "jsonl"):
        predict.main(exported, tmp_path / "rows.csv", tmp_path / f"out.{suffix}")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == ",".join(["id", "text", *ADDED]) + "\n"
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["id", "text", *ADDED]
    assert [str(field.type) for field in table.schema] == ["string"] * 3 + ["double"] * 3
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == ""


def test_a_text_that_is_null_is_an_empty_text_and_stays_null(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": null}\n{"text": ""}\n', encoding="utf-8")
    predict.main(exported, tmp_path / "rows.jsonl", tmp_path / "out.jsonl")
    first, second = read(tmp_path / "out.jsonl")
    assert (first.pop("text"), second.pop("text")) == (None, "")
    assert first == second


BAD = {
    "no column": (
        "rows.csv",
        b"id,txt\n1,a\n",
        r"rows\.csv: there is no column text, .*there are id, txt; did you mean",
    ),
    "a name that is taken": ("rows.csv", b"text,prediction\na,b\n", "it has a column prediction already"),
    "a ragged row": ("rows.csv", b"id,text\n1,a\n2,b,c\n", r"rows\.csv, line 3: 3 field\(s\) found, 2 expected"),
    "no utf-8": ("rows.csv", b"text\na\n\xff\n", r"rows\.csv, line 3: the byte 0xff .*set --encoding"),
    "broken JSON": ("rows.jsonl", b'{"text": "a"}\n{"text": \n', r"rows\.jsonl, line 2: not JSON"),
    "a row without the text": ("rows.jsonl", b'{"text": "a", "id": 1}\n{"id": 2}\n', r"line 2: it has no 'text'"),
    "an empty file": ("rows.csv", b"", r"rows\.csv: the file is empty; give a file with rows"),
    "no Parquet": ("rows.parquet", b"text\na\n", r"rows\.parquet: not readable as Parquet"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_rows_that_can_not_be_read_are_named_and_nothing_is_written(exported: Path, tmp_path: Path, kind: str) -> None:
    name, content, message = BAD[kind]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "out.csv").write_text("before", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        predict.main(exported, tmp_path / name, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "before"
    assert {file.name for file in tmp_path.iterdir()} == {name, "out.csv"}


def test_a_column_that_appears_only_after_the_first_rows_is_named(exported: Path, tmp_path: Path) -> None:
    lines = ['{"text": "a"}'] * 150 + ['{"text": "a", "late": "b"}']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 151: it has late, and the first rows have only text"):
        predict.main(exported, tmp_path / "rows.jsonl", tmp_path / "out.jsonl")


def test_what_is_not_there_is_named(exported: Path, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", TABLE)
    with pytest.raises(ModelError, match=r"remint\.json: there is no such file; name a folder that the export stage"):
        predict.main(tmp_path, rows, tmp_path / "out.csv")
    with pytest.raises(DataError, match=r"other\.csv: there is no such file"):
        predict.main(exported, tmp_path / "other.csv", tmp_path / "out.csv")
    with pytest.raises(UserError, match=r"out\.xlsx: its name ends in none of \.csv.*--output-format"):
        predict.main(exported, rows, tmp_path / "out.xlsx")
    with pytest.raises(UserError, match="--format: there is no format 'xml'; there are csv"):
        predict.main(exported, rows, tmp_path / "out.csv", input_format="xml")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: it is a folder; name a file to write"):
        predict.main(exported, rows, tmp_path / "folder.csv")
    with pytest.raises(UserError, match="--encoding: Python knows no encoding utf-99"):
        predict.main(exported, rows, tmp_path / "out.csv", encoding="utf-99")


def test_the_rows_themselves_are_not_replaced(exported: Path, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", TABLE)
    (tmp_path / "link.csv").symlink_to(rows)
    before = rows.read_bytes()
    for out in (rows, tmp_path / "link.csv"):
        with pytest.raises(UserError, match="it is the file of the rows themselves"):
            predict.main(exported, rows, out)
    assert rows.read_bytes() == before


def test_other_encodings_and_delimiters_are_read(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes("text;note\nmy card;é\n".encode("latin-1"))
    predict.main(exported, tmp_path / "rows.csv", tmp_path / "out.csv", encoding="latin-1", delimiter=";")
    assert read(tmp_path / "out.csv")[0]["note"] == "é"


def test_a_mistake_in_standard_input_ends_with_exit_code_2_and_one_message(exported: Path) -> None:
    ended = command(exported, "-", "-", input=b"text\na,b\n")
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"error: standard input, line 2: 2 field(s) found")
    assert ended.stderr.count(b"\n") == 1


def test_neither_the_training_stack_nor_the_orchestrator_is_imported(exported: Path, tmp_path: Path) -> None:
    refuse = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {FORBIDDEN}:
            raise ImportError(name + " is imported")
sys.meta_path.insert(0, Refuse())
from pathlib import Path
from stages import predict
for suffix in ("csv", "tsv", "jsonl", "parquet"):
    predict.main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3] + suffix))
"""
    rows = write(tmp_path / "rows.csv", TABLE)
    words = [sys.executable, "-c", refuse, str(exported), str(rows), str(tmp_path / "out.")]
    ended = subprocess.run(words, cwd=tiny.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(read(tmp_path / "out.jsonl")) == len(TABLE)


def test_a_file_of_any_size_takes_about_the_same_memory(exported: Path, tmp_path: Path) -> None:
    measure = """
import resource, sys
from pathlib import Path
from stages import predict
predict.main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), threads=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    peaks, sizes = [], []
    for count in (10_000, 50_000):
        table = [{**row, "note": "x" * 1000} for row in tiny.rows(50)] * (count // 50)
        rows = tiny.write_csv(tmp_path / f"{count}.csv", table)
        words = [sys.executable, "-c", measure, str(exported), str(rows), str(tmp_path / "out.csv")]
        ended = subprocess.run(words, cwd=tiny.ROOT, capture_output=True, text=True, check=True)
        peaks.append(float(ended.stdout))
        sizes.append(rows.stat().st_size / 2**20)
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 2, f"MiB at the peak: {peaks}, of the files: {sizes}"


@pytest.mark.slow
def test_it_runs_in_an_environment_with_nothing_but_what_it_needs(exported: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    packages = ["onnxruntime", "tokenizers", "numpy", "pyarrow", "typer", "pydantic", "ruamel.yaml"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    rows = write(tmp_path / "rows.csv", TABLE)
    words = [python, "-m", "stages.predict", exported, rows, tmp_path / "out.csv"]
    subprocess.run(words, cwd=tiny.ROOT, check=True)
    assert len(read(tmp_path / "out.csv")) == len(TABLE)
