"""Score every checkpoint of a seed on the validation set, by all of the task's metrics."""

import logging
from pathlib import Path

from stages import command, lookup, metrics, outputs, scoring, splits, tasks
from stages.checkpoints import list_checkpoints
from stages.params import load_params

log = logging.getLogger(__name__)


def main(encoded: Path, checkpoints: Path, scores: Path) -> None:
    """Write {checkpoint's name: {metric: score}}, in the order of the steps."""
    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    names = metrics.available(task.METRICS, len(splits.read_label_names(encoded)))
    rows = splits.read_encoded(encoded, "validation")
    references = scoring.references(rows)

    found = {}
    for checkpoint in list_checkpoints(checkpoints):
        collate = task.collator(scoring.load_tokenizer(checkpoint))
        forward = scoring.load_forward(checkpoint, task)
        decoded = scoring.decode(forward, rows, task, collate, batch_size=params.evaluate.batch_size)
        found[checkpoint.name] = {name: metrics.score(name, decoded, references) for name in names}
        log.info("%s: %s %.4f", checkpoint.name, names[0], found[checkpoint.name][names[0]])
    # Beside the folder of all scores, not in it: select_best depends on that folder.
    outputs.write_json(scores, found, staging=scores.parent.parent)


if __name__ == "__main__":
    command.run(main)
