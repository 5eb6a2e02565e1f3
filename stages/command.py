"""Turn a stage's main function into a command: its Path parameters become the arguments, its errors an exit code."""

import contextlib
import errno
import json
import logging
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import typer
from ruamel.yaml import YAML

from stages import lifetime
from stages.errors import RemintError

OUTCOME = "REMINT_OUTCOME"
"""The environment variable that names a file: there a command that fails writes its exit code and its message."""

_MACHINE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOMEM}
_USER_ERRNOS = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST}
"""A folder where a file is meant, or a file where a folder is."""
_REMEDIES = {
    **dict.fromkeys(_USER_ERRNOS, "name another path, or move away what lies there"),
    errno.ENOSPC: "free some disk space and run the same command again",
    errno.EDQUOT: "free some of the disk quota and run the same command again",
    errno.ENOMEM: "free some memory and run the same command again",
}


def _log_level() -> str:
    """runtime.log_level, read leniently: a mistake in params.yaml is for load_params to name."""
    try:
        return str(YAML(typ="safe").load(Path("params.yaml"))["runtime"]["log_level"]).upper()
    except Exception:
        return "INFO"


def set_up_libraries(*, offline: bool) -> None:
    """Tell Hugging Face's libraries and ONNX Runtime, before they are imported, what they may do and say.

    Stages therefore import torch, transformers and datasets inside functions. Their progress bars and notes (a head
    that is newly initialized, say) are about things that a user of remint can do nothing about.
    """
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    # Importing it is enough for an id of the device in the home directory and for events that are sent to its makers.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["HF_DATASETS_OFFLINE"] = "1"


def set_up_logging() -> None:
    """Log to standard error, one line a message; libraries only from warnings up, Python's own warnings not at all."""
    level = os.environ.get("REMINT_LOG_LEVEL", "").upper() or _log_level()
    if level not in logging.getLevelNamesMapping():
        level = "INFO"
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("stages").setLevel(level)
    logging.getLogger("__main__").setLevel(level)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def is_of_full_disk(error: BaseException) -> bool:
    """Whether an error is that of a full disk, which safetensors and torch.save raise without its errno."""
    return re.search(r"No space left on device|inline_container\.cc.*unexpected pos", str(error)) is not None


def exit_code(error: BaseException) -> int | None:
    """The exit code of a foreseen error, or None for a bug (which keeps its traceback)."""
    if isinstance(error, RemintError):
        return error.exit_code
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS | _USER_ERRNOS:
        return 2 if error.errno in _USER_ERRNOS else 4
    return 4 if isinstance(error, MemoryError) or is_of_full_disk(error) else None


def describe(error: BaseException) -> str:
    """One message: where, what was found, what to do."""
    if isinstance(error, RemintError):
        return str(error)
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS | _USER_ERRNOS:
        remedy = _REMEDIES.get(error.errno or 0, "see to the permissions of that path and run the same command again")
        return f"{error.filename2 or error.filename or 'the disk'}: {error.strerror}; {remedy}"
    if isinstance(error, MemoryError):
        return f"the memory of this machine ran out ({error}); free some, or lower the batch size"
    if is_of_full_disk(error):
        return f"a disk is full ({error}); {_REMEDIES[errno.ENOSPC]}"
    return str(error)


def record(code: int, message: str) -> None:
    """Write down how the stage failed where whoever started dvc wants it: all that comes out of dvc is 255."""
    if not (name := os.environ.get(OUTCOME)):
        return
    partial = Path(f"{name}.{os.getpid()}")
    # Not being told is a smaller harm than another failure in place of the stage's own.
    with contextlib.suppress(OSError):
        partial.write_text(json.dumps({"code": code, "message": message}), encoding="utf-8")
        partial.replace(name)


def report(error: Exception, code: int | None) -> None:
    """Tell how a command failed: the message of a foreseen error, the traceback of a bug.

    A process of several leaves it to its launcher (stages/launch.py) by torchrun's error file, so that the first
    failure is told, once.
    """
    text = "".join(traceback.format_exception(error)).rstrip() if code is None else f"error: {describe(error)}"
    if error_file := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        detail = {"message": text, "extraInfo": {"timestamp": str(int(time.time())), "py_callstack": ""}}
        Path(error_file).write_text(json.dumps({"message": detail}), encoding="utf-8")
    else:
        record(1 if code is None else code, text)
        print(text, file=sys.stderr)


def run(main: Callable[..., None], *, offline: bool = True) -> None:
    """Run `main` on the command line's arguments and end the process with the exit code that its outcome has.

    After the fetch stages nothing reads the Hub: all others run offline.
    """
    lifetime.follow_parent()
    set_up_libraries(offline=offline)
    set_up_logging()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except Exception as error:
        code = exit_code(error)
        report(error, code)
        sys.exit(1 if code is None else code)
