"""What save_model wrote of a checkpoint: copied whole, and loaded from the copy."""

import logging
import shutil
from pathlib import Path
from typing import Any

from stages import checkpoints, scoring
from stages.errors import ModelError
from stages.model import base_model

log = logging.getLogger(__name__)

_AGAIN = "run the select_best stage again (dvc repro --force --single-item select_best)"


def copy(best: Path, folder: Path) -> None:
    """Copy all files of models/best into a folder, but for the manifest, which is of that other folder.

    Raises:
        ModelError: a file is missing, or not as the manifest says.
    """
    if not best.is_dir():
        raise ModelError(f"{best}: there is no such folder; {_AGAIN}")
    if (best / checkpoints.MANIFEST).exists() and (reason := checkpoints.fault(best)):
        raise ModelError(f"{best}: {reason}; {_AGAIN}")
    # Contents alone: DVC's cache may lend its files as read-only links.
    shutil.copytree(best, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
    (folder / checkpoints.MANIFEST).unlink(missing_ok=True)


def load(folder: Path, auto_model: str) -> tuple[Any, Any]:
    """The tokenizer, saved again in the form that other libraries read, and the model in fp32 and evaluation mode.

    Raises:
        ModelError: a file is missing or corrupt.
    """
    import torch
    import transformers
    from safetensors import SafetensorError

    auto = getattr(transformers, auto_model)
    try:
        tokenizer = scoring.load_tokenizer(folder)
        trusted = base_model.trusts_remote_code(folder)
        model = auto.from_pretrained(folder, dtype=torch.float32, local_files_only=True, trust_remote_code=trusted)
    except (OSError, ValueError, SafetensorError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ModelError(f"the best checkpoint can't be loaded: {error}; {_AGAIN}") from error
    tokenizer.save_pretrained(folder)
    if not tokenizer.is_fast:
        log.warning("the tokenizer is written in Python and has no tokenizer.json: remint predict can't use this model")
    return tokenizer, model.eval()
