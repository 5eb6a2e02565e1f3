"""The graph of the checkout in the current folder, and what of it is not up to date: python dvc_view.py FILE.

`dvc dag` and `dvc status` would be two processes, and a run with nothing to do waits for little else than their start.
The only file of the pipeline that calls DVC in its own process: run by dvc_cli.py, so that what DVC keeps goes with it.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException  # type: ignore[import-untyped]
from dvc.repo import Repo, lock_repo  # type: ignore[import-untyped]


def view() -> dict[str, Any]:
    """Stage -> the stages it waits for; stage -> what `dvc status` says of it.

    Raises:
        DvcException: no project, a dvc.yaml that can't be read, or another dvc is at work on a path.
    """
    with Repo(_wait_for_lock=True) as repo, lock_repo(repo):
        graph = repo.index.graph
        waits_for = {stage.addressing: sorted(one.addressing for one in graph[stage]) for stage in graph}
        # An import is updated by `dvc update` alone: what its source has now is no matter here, and takes a network.
        return {"graph": waits_for, "status": repo.status(check_updates=False)}


if __name__ == "__main__":
    try:
        found = view()
    except DvcException:
        logging.getLogger("dvc").exception("")  # as the command line says it
        sys.exit(255)
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
