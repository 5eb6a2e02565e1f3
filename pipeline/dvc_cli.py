"""What the flows ask of DVC: the graph, what is not up to date, and to bring one stage up to date."""

import json
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline import dvc_failure, git, process_tree
from pipeline.dvc_failure import StageFailed as StageFailed
from stages.command import OUTCOME
from stages.errors import MachineError, RemintError, StoppedError, UserError

Outcome = Literal["ran", "unchanged", "restored"]

_KEPT_LINES = 60
"""Of what dvc and a stage said last, for the message of a failure."""

_SAID: dict[str, Outcome] = {
    "didn't change, skipping": "unchanged",
    "is cached - skipping run, checking out outputs": "restored",
}
_KINDS: dict[int, type[RemintError]] = {one.exit_code: one for one in (UserError, MachineError, StoppedError)}


@dataclass(frozen=True)
class View:
    """A checkout as DVC sees it at one moment."""

    graph: dict[str, set[str]]
    """Each stage of dvc.yaml (train@13, of a matrix) and each .dvc file, with the ones it waits for."""
    changed: dict[str, set[str]]
    """Each of them that is not up to date -> what of it is not, in words. Who waits for one of these may be, too."""


def look(checkout: Path, *, stop: threading.Event | None = None) -> View:
    """Graph and changes, from one process.

    Raises:
        UserError: dvc.yaml, params.yaml or DVC's settings can't be used; the message is DVC's.
        MachineError: another dvc is at work on a path of the graph, or the disk fails.
        StoppedError: `stop` was set.
    """
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="remint-") as folder:
        file = Path(folder) / "view.json"
        ended = process_tree.run(
            [sys.executable, "-P", str(Path(__file__).with_name("dvc_view.py")), str(file)],
            say=said.append,
            environment=surroundings(),
            cwd=checkout,
            stop=stop,
            launcher=True,
        )
        if ended.why == "stopped" and ended.code:
            raise StoppedError("stopped while DVC looked for what has changed; nothing had begun")
        if ended.code:
            code, words = dvc_failure.of_dvc_itself(ended.code, said)
            raise _KINDS.get(code, RemintError)(words)
        found = json.loads(file.read_text(encoding="utf-8"))
    changed = {stage: set(_changes(entries)) for stage, entries in found["status"].items()}
    return View({stage: set(before) for stage, before in found["graph"].items()}, changed)


def _changes(entries: list[Any]) -> Iterator[str]:
    """`dvc status` has, of a stage, {"changed deps": {path: state}}, {"changed outs": ...} and words."""
    for entry in entries:
        if isinstance(entry, str):
            yield {"changed checksum": "the command has changed"}.get(entry, entry)
            continue
        for paths in entry.values():
            for path, state in paths.items():
                # Of params, the paths are files, and the states those of each knob.
                of_knobs = state.items() if isinstance(state, dict) else [(path, state)]
                yield from (f"{name}: {how}" for name, how in of_knobs)


def graph(checkout: Path) -> dict[str, set[str]]:
    """Each stage with the ones it waits for; look() has what is not up to date, too."""
    return look(checkout).graph


def reproduce(
    checkout: Path,
    stage: str,
    *,
    say: Callable[[str], None],
    deadline_seconds: float | None = None,
    stop: threading.Event | None = None,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
    grace_seconds: float = process_tree.GRACE_SECONDS,
) -> Outcome:
    """Bring one stage up to date, whatever those before it are; see process_tree.run for the arguments.

    At the deadline or on `stop` the stage is asked to end, and a training saves. `environment` is added to this
    process's own.

    Raises:
        StageFailed: it is not up to date.
    """
    heard = _Heard(say)
    with tempfile.TemporaryDirectory(prefix="remint-") as folder:
        file = Path(folder) / "outcome.json"
        ended = process_tree.run(
            [sys.executable, "-P", "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage],
            say=heard.take,
            environment=surroundings(**{**(environment or {}), OUTCOME: str(file)}),
            cwd=checkout,
            deadline_seconds=deadline_seconds,
            stop=stop,
            log=log,
            launcher=True,
            grace_seconds=grace_seconds,
        )
        if ended.code == 0:
            return heard.outcome
        own = dvc_failure.Own(**json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None
    raise dvc_failure.of_stage(stage, ended, list(heard.last), own, deadline_seconds)


class _Heard:
    """Listens to what dvc says, for what it does."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.outcome: Outcome = "ran"
        self.last = deque[str](maxlen=_KEPT_LINES)
        self._say = say
        self._runs = False

    def take(self, line: str) -> None:
        """Note a line and pass it on; once the stage runs, it can say what it likes."""
        if line.startswith("Running stage '"):
            self.outcome, self._runs = "ran", True
        elif not self._runs:
            self.outcome = next((outcome for words, outcome in _SAID.items() if words in line), self.outcome)
        self.last.append(line)
        self._say(line)


def surroundings(**settings: str) -> dict[str, str]:
    """The environment of DVC and the stages: `python` in a stage's command is the one that runs this."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Unbuffered: DVC's lines and those of a stage come in the order in which they were said, at once.
    own = {"PATH": path, "DVC_NO_ANALYTICS": "1", "PYTHONUNBUFFERED": "1"}
    # With these a stage would import other code than the checkout's, or take itself for one of another run of DVC.
    dropped = {"PYTHONSAFEPATH", "DVC_ROOT", "DVC_STAGE"}
    return {name: value for name, value in git.environment(**own).items() if name not in dropped} | settings
