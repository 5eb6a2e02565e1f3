"""A model's name becomes files: config, tokenizer and weights (safetensors) in models/base, and source.json.

After it nothing reads the Hub. Files are copied as they are, so a digest here is a digest there.
"""

import logging
import shutil
from pathlib import Path

from stages import command, lookup, outputs, tasks
from stages.errors import ModelError
from stages.model import base_model, model_files, model_source
from stages.model.model_source import Source
from stages.params import ModelParams, load_params

log = logging.getLogger(__name__)


def checked_files(source: Source, params: ModelParams) -> list[Path]:
    """The files to copy, once the weights are known to be whole and those that were pinned.

    Raises:
        ModelError: they are not.
    """
    if not (source.folder / model_files.CONFIG).is_file():
        raise ModelError(
            f"model.name {params.name}: no {model_files.CONFIG} in it, so it is no model's folder; it has "
            f"{', '.join(source.listed[:10]) or 'no file'}"
        )
    weights = model_files.weights(source.folder, name=params.name, listed=source.listed)
    if params.sha256 is not None or source.commit is None:
        found = model_files.weights_digest(weights)
        if found != params.sha256:
            raise ModelError(
                f"model.sha256: the weights of {params.name} have {found}, and params.yaml says {params.sha256}; get "
                "the model that was meant, or set model.sha256 to theirs if they are"
            )
    return sorted({*weights, *model_files.beside_weights(source.folder, code=params.trust_remote_code)})


def main(base: Path) -> None:
    """Find the model, check it, copy it."""
    params = load_params()
    task: tasks.Task = lookup.find(tasks, params.task.type)
    source = model_source.find(params.model)
    files = checked_files(source, params.model)
    trusted = params.model.trust_remote_code
    with outputs.folder(base) as partial:
        for file in files:
            shutil.copyfile(file, partial / file.name)
        base_model.check(partial, task, name=params.model.name, trust_remote_code=trusted)
        facts = {
            "name": source.name,
            "revision": params.model.revision,
            "commit": source.commit,
            "trust_remote_code": trusted,
            "files": {file.name: model_files.sha256(partial / file.name) for file in files},
        }
        outputs.write_json(partial / base_model.SOURCE, facts)
    log.info("%s: %d files of %s", base, len(files), source.name)


if __name__ == "__main__":
    command.run(main, offline=False)
