"""The README.md that goes with an exported model: how good it is, what it is made from, and how it is used."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_INTERVAL = {"value", "low", "high"}


def render(
    facts: Mapping[str, Any],
    parity: Mapping[str, Any],
    *,
    auto_model: str,
    config: Mapping[str, Any],
    origins: Mapping[str, Mapping[str, Any]],
    test: Mapping[str, Any],
    rows: Mapping[str, int],
    digests: Mapping[str, str],
) -> str:
    """The card, in Markdown.

    `facts` is what remint.json holds and the params that were declared, `parity` what parity.json does, `config` the
    model's config.json, `origins` source.json (of the base model) and training.json, `test` models/test_metrics.json;
    `rows` counts each split's, `digests` names each file of data/encoded.
    """
    kind = (config.get("architectures") or ["model"])[0]
    labels = f" Its labels: {', '.join(facts['label_names'])}." if facts["label_names"] else ""
    sections = [
        "# Model card",
        f"{kind} ({config.get('model_type')}), fine-tuned by remint for the task {facts['task']}.{labels}",
        "## Test metrics",
        *_test(test),
        "## Exported models",
        f"On the {parity['rows']} rows of {parity['split']}, each beside PyTorch's:",
        _parity(parity),
        "## Data",
        "Splits: " + ", ".join(f"{name} {count} rows" for name, count in rows.items()) + ". As token ids they are:",
        _table(["file", "sha256"], digests.items()),
        "## Base model",
        _table(["", "value"], _flat(origins["source.json"])),
        "## Training",
        _table(["", "value"], _flat(origins["training.json"])),
        "## Export",
        _table(["param", "value"], _flat({name: value for name, value in facts.items() if name != "label_names"})),
        "## How to use it",
        _usage(" and ".join(facts["columns"].values()), auto_model),
    ]
    return "\n\n".join(sections) + "\n"


def _table(header: list[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; a bar or a line break within a cell can't end it."""
    lines = [header, ["---"] * len(header), *rows]
    cells = [[str(cell).replace("|", "&#124;").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested mappings as dotted names, each with its value as it is read."""
    for name, value in values.items():
        if isinstance(value, Mapping) and not set(value) >= _INTERVAL:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _read(value)


def _matrix(corner: str, lines: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with one line for each mapping, and a column for each of their keys."""
    flat = {name: dict(_flat(values)) for name, values in lines.items()}
    columns = list(dict.fromkeys(key for values in flat.values() for key in values))
    return _table(
        [corner, *columns], ([name, *(values.get(key, "") for key in columns)] for name, values in flat.items())
    )


def _read(value: Any) -> str:
    """A number in four digits, with its interval where it has one."""
    if isinstance(value, Mapping):
        return f"{_read(value['value'])} ({_read(value['low'])} to {_read(value['high'])})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _test(test: Mapping[str, Any]) -> Iterator[str]:
    """Metrics with their intervals beside the baseline's, then slices and classes; or why there are none."""
    if not test.get("metrics"):
        yield f"None: {test.get('why') or 'nothing was measured'}."
        return
    brackets = ", ".join(
        f"{name.replace('_', ' ')} {_read(value)}" for name, value in test.get("intervals", {}).items()
    )
    baseline = test.get("baseline", {})
    yield f"On the {test.get('rows', '')} rows of test; in brackets, intervals ({brackets or 'not described'})."
    yield _matrix(
        "metric",
        {name: {"model": score, "baseline": baseline.get(name, "")} for name, score in test["metrics"].items()},
    )
    for column, found in test.get("slices", {}).items():
        yield f"### By {column}"
        yield _matrix(column, found)
    if test.get("per_class"):
        yield "### By label"
        yield _matrix("label", test["per_class"])


def _parity(parity: Mapping[str, Any]) -> str:
    """One line for each model in parity.json."""
    metric = parity["metric"]
    columns = [metric, "max_logit_difference", "equal_predictions", "left_out"]
    models = {name: found for name, found in parity.items() if isinstance(found, Mapping)}
    lines = [
        [name, *("" if found.get(key) is None else _read(found[key]) for key in columns)]
        for name, found in models.items()
    ]
    return _table(["model", *(name.replace("_", " ") for name in columns)], lines)


def _usage(columns: str, auto_model: str) -> str:
    return f"""Rows in a csv, tsv, jsonl or Parquet file, with the columns {columns}; PyTorch is not needed:

```
remint predict <this folder> rows.csv predictions.csv
```

In Python:

```python
from transformers import AutoTokenizer, {auto_model}

tokenizer = AutoTokenizer.from_pretrained("<this folder>")
model = {auto_model}.from_pretrained("<this folder>")
```"""
