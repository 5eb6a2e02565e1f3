"""Write presets/*.yaml: complete params.yaml files, made from params.yaml and what each data set needs otherwise.

A new knob of params.yaml so reaches all of them, with its comment: `make presets`.
"""

from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]


class Preset(NamedTuple):
    """What a preset says otherwise than params.yaml."""

    about: str
    """What it is, the licence of its data and where to put them: the comment that the file begins with."""

    knobs: str
    """Dotted place: value, one a line, as YAML."""


PRESETS = {
    "paraphrases": Preset(
        about="""
Do two sentences say the same? 600 synthetic pairs that come with this repository.
Licence of the data: CC0 1.0.
The data: data/raw/paraphrases.tsv, which is there.
""",
        knobs="""
data.raw: data/raw/paraphrases.tsv
data.format: tsv
data.columns.text: sentence1
data.columns.text_pair: sentence2
data.columns.extra: [topic]
data.labels: [not_equivalent, equivalent]
data.quoting: none
train.learning_rate: 5.0e-5
train.num_train_epochs: 10.0
select_best.metric: accuracy
test.slices: [topic]
export.max_metric_drop: 0.05
""",
    ),
    "glue-mrpc": Preset(
        about="""
Microsoft Research Paraphrase Corpus as GLUE cuts it: 3,668 pairs to train on, 408 for validation,
1,725 without labels.
Licence of the data: Microsoft Research Shared Source License, non-commercial use only; read it before you use them.
The data: train.tsv, dev.tsv and test.tsv of GLUE's MRPC in data/raw/glue_mrpc, then dvc add data/raw/glue_mrpc
""",
        knobs="""
seeds: [13, 14, 15]
data.raw: data/raw/glue_mrpc
data.format: tsv
data.files: {train: train.tsv, validation: dev.tsv, test: test.tsv}
data.columns.text: "#1 String"
data.columns.text_pair: "#2 String"
data.columns.label: Quality
data.columns.id: null
data.columns.extra: []
data.labels: ["0", "1"]
data.quoting: none
train.learning_rate: 5.0e-5
train.num_train_epochs: 5.0
select_best.metric: accuracy
test.slices: []
export.max_metric_drop: 0.02
""",
    ),
    "glue-stsb": Preset(
        about="""
Semantic Textual Similarity Benchmark as GLUE cuts it: how near two sentences are, from 0 to 5 (a regression).
5,749 pairs to train on, 1,500 for validation, 1,379 without scores.
Licence of the data: mixed, by source (its LICENSE.txt): CC BY-SA in part, non-commercial in part.
The data: train.tsv, dev.tsv and test.tsv of GLUE's STS-B in data/raw/glue_stsb, then dvc add data/raw/glue_stsb
For test metrics, {train: train.tsv, test: dev.tsv}: test.tsv has no scores, and validation is cut from train then.
""",
        knobs="""
task.type: regression
data.raw: data/raw/glue_stsb
data.format: tsv
data.files: {train: train.tsv, validation: dev.tsv, test: test.tsv}
data.columns.text: sentence1
data.columns.text_pair: sentence2
data.columns.label: score
data.columns.id: null
data.columns.extra: []
data.quoting: none
prepare.split_by: random
train.num_train_epochs: 3.0
select_best.metric: pearson
test.slices: []
""",
    ),
    "banking77": Preset(
        about="""
Banking77: 77 intents of a bank's customers, 10,003 messages to train and validate on, 3,080 to test.
Licence of the data: CC BY 4.0 (PolyAI).
The data: train.csv and test.csv (banking_data/ of PolyAI-LDN/task-specific-datasets) in data/raw/banking77, then
dvc add data/raw/banking77
""",
        knobs="""
data.raw: data/raw/banking77
data.files: {train: train.csv, test: test.csv}
data.columns.label: category
data.columns.id: null
data.columns.extra: []
encode.max_length: 64
train.batch_size: 32
train.learning_rate: 2.0e-4
train.num_train_epochs: 4.0
select_best.metric: accuracy
test.slices: []
""",
    ),
    "sms-spam": Preset(
        about="""
SMS Spam Collection v.1: 5,574 text messages, 747 of them spam. One file, tabs, no header line, no quoting.
Licence of the data: free, under the copyright notice of its readme (Almeida, Gomez Hidalgo).
The data: SMSSpamCollection in data/raw/sms_spam, then dvc add data/raw/sms_spam/SMSSpamCollection
""",
        knobs="""
data.raw: data/raw/sms_spam/SMSSpamCollection
data.format: tsv
data.columns.id: null
data.columns.extra: []
data.labels: [ham, spam]
data.quoting: none
data.names: [label, text]
train.batch_size: 32
train.num_train_epochs: 3.0
select_best.metric: f1_binary
test.slices: []
export.max_metric_drop: 0.02
""",
    ),
}


def _yaml() -> YAML:
    """Reads and writes with comments, quotes, and numbers as they were written."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1000
    yaml.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def _put(tree: Any, place: str, value: Any) -> None:
    """Set a value that is there already; KeyError names a place that params.yaml does not have."""
    *sections, knob = place.split(".")
    for section in sections:
        tree = tree[section]
    if knob not in tree:
        raise KeyError(f"{place}: params.yaml has no such knob")
    tree[knob] = value


def render(name: str, preset: Preset, params: str) -> str:
    """The text of a preset, from the text of params.yaml."""
    yaml = _yaml()
    tree = yaml.load(params)
    for place, value in yaml.load(preset.knobs).items():
        _put(tree, place, value)
    about = [*preset.about.strip().splitlines(), f"The run: cp presets/{name}.yaml params.yaml && dvc repro"]
    tree.yaml_set_start_comment(
        "\n".join([*about, "", "Made from params.yaml by make presets. What each knob means: stages/params.py."])
        + "\n\n"
    )
    text = StringIO()
    yaml.dump(tree, text)
    return text.getvalue()


def main() -> None:
    """Write all presets and say which."""
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    for name, preset in PRESETS.items():
        file = ROOT / "presets" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(render(name, preset, params), encoding="utf-8")
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
