"""A throwaway project: this repository's graph and code, a 2-layer model, 60 rows, and a git and a DVC of its own."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages import checkpoints
from tests import tiny

COPIED = (
    "dvc.yaml",
    "stages",
    "pipeline",
    "requirements",
    "pyproject.toml",
    ".gitignore",
    ".dvcignore",
    "data/.gitignore",
    "models/.gitignore",
    ".dvc/config",
    ".dvc/.gitignore",
)
STAGES = (
    "check",
    "fetch_model",
    "fetch_data",
    "prepare",
    "encode",
    "train@13",
    "evaluate@13",
    "select_best",
    "test",
    "export",
)
IN_GIT = re.compile(r"dvc\.lock|params\.yaml|models/(scores/.*|selection\.json|test_metrics\.json)|.*\.dvc")


class Project:
    """A folder to run commands in, and what can be asked of it."""

    def __init__(self, root: Path, home: Path, **environment: str) -> None:
        """`home` holds all that a process might keep outside of the project: caches, state, git's configuration."""
        self.root = root
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        (home / ".gitconfig").write_text(
            "[user]\nname = Test\nemail = test@example.com\n[init]\ndefaultBranch = main\n"
        )
        kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
        self.environment = {
            **kept,
            "HOME": str(home),
            "SHELL": "/bin/sh",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parent / "no_network"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "REFUSED_SOCKETS": str(home / "refused.txt"),
            "REMINT_STATE": str(home / "state"),
            "HF_HOME": str(home / "huggingface"),
            "HF_HUB_OFFLINE": "1",
            "DVC_SITE_CACHE_DIR": str(home / "dvc"),
            "DVC_NO_ANALYTICS": "1",
            "OMP_NUM_THREADS": "1",
            **environment,
        }

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command that is expected to exit with `code`."""
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == code, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def repro(self, *arguments: str) -> list[str]:
        """`dvc repro`; the stages that ran, in their order."""
        return ran(self.run("dvc", "repro", *arguments).stdout)

    def repro_fails(self) -> str:
        """`dvc repro` that ends with an error; all that it said."""
        done = self.run("dvc", "repro", code=255)
        return done.stdout + done.stderr

    def commit(self) -> None:
        """All that git does not ignore becomes a commit."""
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--allow-empty", "--message", "State of the test")

    def changed(self) -> list[str]:
        """What `git status` shows, by path."""
        return [line[3:] for line in self.run("git", "status", "--porcelain", "-uall").stdout.splitlines()]

    def set(self, **places: Any) -> None:
        """Change knobs of params.yaml: set(**{"train.learning_rate": 1e-3})."""
        file = self.root / "params.yaml"
        tree = YAML(typ="safe").load(file)
        for place, value in places.items():
            *sections, knob = place.split(".")
            target = tree
            for section in sections:
                target = target[section]
            target[knob] = value
        YAML(typ="safe").dump(tree, file)

    def append(self, name: str, text: str) -> None:
        """Add text at the end of a file."""
        with (self.root / name).open("a", encoding="utf-8") as stream:
            stream.write(text)

    def replace(self, name: str, old: str, new: str) -> None:
        """Replace what stands in a file exactly once."""
        file = self.root / name
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def digests(self, *folders: str) -> dict[str, str]:
        """The sha256 of every file in folders that hold outputs."""
        files = [file for folder in folders for file in sorted((self.root / folder).rglob("*")) if file.is_file()]
        return {str(file.relative_to(self.root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def output_md5(self, path: str) -> str:
        """The md5 that dvc.lock records for an output."""
        lock = YAML(typ="safe").load(self.root / "dvc.lock")
        return next(out["md5"] for stage in lock["stages"].values() for out in stage["outs"] if out["path"] == path)


@contextlib.contextmanager
def under_way(project: Project, command: list[str], until: Callable[[str], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a session of its own, as a terminal has it, once `until` holds of what it said; killed if left."""
    said = project.home / "log"
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            cwd=project.root,
            env=project.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 120
            while not until(said.read_text(encoding="utf-8")):
                assert process.poll() is None, said.read_text(encoding="utf-8")
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    """SIGINT to all of the terminal's group."""
    os.killpg(process.pid, signal.SIGINT)


def ran(said: str) -> list[str]:
    """The stages that DVC says it runs, in their order."""
    return re.findall(r"^Running stage '([^']+)'", said, flags=re.MULTILINE)


def surplus(paths: Iterable[str]) -> list[str]:
    """Of what git shows, what no run should leave to it."""
    return [path for path in paths if not IN_GIT.fullmatch(path)]


def create(root: Path, home: Path) -> Project:
    """A project that has not been run, committed."""
    for name in COPIED:
        source, target = tiny.ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.partial"))
        else:
            shutil.copy(source, target)
    tiny.write_csv(root / "data/raw/rows.csv", tiny.rows(60))
    weights = tiny.model(root / "tiny_model") / "model.safetensors"
    tiny.write_params(
        root / "params.yaml",
        **{
            "model.name": "tiny_model",
            "model.sha256": checkpoints.digest(weights),
            "data.raw": "data/raw/rows.csv",
            # Enough to learn from: that checkpoints differ, and the best of them is not the first.
            "train.learning_rate": 1e-2,
            "train.num_train_epochs": 6.0,
        },
    )
    made = Project(root, home)
    made.run("git", "init", "--quiet")
    made.commit()
    return made


def copy(project: Project, root: Path, home: Path) -> Project:
    """The same project elsewhere, with its outputs and its cache, as if it had always been there."""
    shutil.copytree(
        project.root, root, symlinks=True, ignore=lambda folder, _: {"tmp"} if folder.endswith(".dvc") else set()
    )
    return Project(root, home)
