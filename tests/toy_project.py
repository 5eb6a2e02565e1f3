"""A graph of stages that take no time, in a git repository with an origin and a DVC remote: for what moves bytes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

WORK = """
import json
import pathlib
import sys

verb, *paths = sys.argv[1:]


def put(path, text):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text)


def get(path):
    return pathlib.Path(path).read_text()


if verb == "check":
    put("code/digests.json", json.dumps(len(get("work.py"))))
elif verb == "fetch":
    source = pathlib.Path("../source.txt")
    if not source.exists():
        sys.exit(int(get("fault.txt")))
    put(paths[0] + "/rows", source.read_text())
elif verb == "train":
    put(paths[1] + "/a", get(paths[0]) + paths[2])
    put(paths[1] + "/b", "b" + paths[2])
elif verb == "score":
    put(paths[1], json.dumps({"accuracy": len(get(paths[0] + "/a")) / 1000, "steps": {"1": 0.5}}))
elif verb == "best":
    put(paths[2] + "/model", "".join(get(path) for path in sorted(pathlib.Path(paths[0]).glob("*/a"))))
    put(paths[3], json.dumps({"best": {"score": len(get(paths[2] + "/model")) / 1000}, "metrics": {"f1": 0.5}}))
"""

GRAPH = """
stages:
  check:
    cmd: python work.py check
    deps: [params.yaml, work.py]
    outs: [{code: {cache: false}}]
  fetch:
    cmd: python work.py fetch data/fetched
    params: [data.hub]
    deps: [code/digests.json]
    outs: [data/fetched]
    meta: {fetches: data.hub}
  train:
    matrix: {seed: "${seeds}"}
    cmd: python work.py train ${data.raw} models/checkpoints/${item.seed} ${item.seed}
    params: [train]
    deps: ["${data.raw}", code/digests.json, data/fetched]
    outs: ["models/checkpoints/${item.seed}"]
  score:
    matrix: {seed: "${seeds}"}
    cmd: python work.py score models/checkpoints/${item.seed} models/scores/${item.seed}.json
    deps: ["models/checkpoints/${item.seed}"]
    metrics: [{"models/scores/${item.seed}.json": {cache: false}}]
  best:
    cmd: python work.py best models/checkpoints models/scores models/best models/selection.json
    params: [seeds]
    deps: [models/checkpoints, models/scores]
    outs: [models/best]
    metrics: [{models/selection.json: {cache: false}}]
    meta: {reports: [metrics.*, best.score]}
"""

PARAMS = """
# What a run is made of.
seeds: [13, 14]
train: {rate: 1.0e-3}   # per step
data: {raw: data/rows.csv, hub: null}
runtime: {log: info}
"""


def environment(home: Path) -> dict[str, str]:
    """That of git, DVC and the stages: nobody's settings but the ones under `home`."""
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[user]\nname = Test\nemail = test@example.com\n[init]\ndefaultBranch = main\n")
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "DVC_SITE_CACHE_DIR": str(home / "dvc"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


class Toy:
    """A checkout to run commands in."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *command: str) -> str:
        """What a command prints that is expected to succeed."""
        settings = {**os.environ, **environment(self.root.parent / "home")}
        done = subprocess.run(command, cwd=self.root, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def git(self, *arguments: str) -> str:
        """What a git command prints."""
        return self.run("git", *arguments)

    def dvc(self, *arguments: str) -> str:
        """What a command of DVC prints."""
        return self.run(sys.executable, "-m", "dvc", *arguments)

    def write(self, path: str, text: str) -> None:
        """Write a file, also one that DVC has lent from its cache."""
        (self.root / path).unlink(missing_ok=True)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def read(self, path: str) -> str:
        """What a file holds."""
        return (self.root / path).read_text()

    def commit(self, message: str) -> str:
        """Commit all that git shows; the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.head()

    def head(self, ref: str = "HEAD") -> str:
        """The commit that a name stands for."""
        return self.git("rev-parse", ref)

    def clone(self, name: str, *options: str) -> "Toy":
        """A clone of the origin, beside this checkout."""
        origin = (self.root.parent / "origin.git").as_uri()
        self.git("clone", "--quiet", *options, origin, str(self.root.parent / name))
        return Toy(self.root.parent / name)


def make(base: Path) -> Toy:
    """A checkout that has run, was committed, and whose bytes are in origin and remote; all of it under `base`."""
    toy = Toy(base / "checkout")
    toy.root.mkdir(parents=True)
    toy.git("init", "--quiet", "--bare", "../origin.git")
    toy.git("init", "--quiet")
    # A path from here, so that the whole can be copied.
    toy.git("remote", "add", "origin", "../origin.git")
    toy.dvc("init", "--quiet")
    toy.dvc("remote", "add", "--default", "store", "../store")
    toy.write("work.py", WORK)
    toy.write("dvc.yaml", GRAPH)
    toy.write("params.yaml", PARAMS)
    toy.write(".gitignore", "/code\n")
    toy.write("models/.gitignore", "/checkpoints\n/best\n")
    toy.write("data/rows.csv", "text,label\n")
    toy.write("../source.txt", "fetched\n")
    toy.dvc("add", "--quiet", "data/rows.csv")
    toy.dvc("repro", "--quiet")
    toy.commit("One")
    toy.dvc("push", "--quiet")
    toy.git("push", "--quiet", "--set-upstream", "origin", "main")
    return toy


def copy(toy: Toy, base: Path) -> Toy:
    """The same under another folder."""
    shutil.copytree(toy.root.parent, base, symlinks=True, dirs_exist_ok=True)
    return Toy(base / toy.root.name)


def rerun(toy: Toy, rows: str = "text,label\nmore,rows\n") -> None:
    """New rows arrive, and the graph runs; nothing is committed."""
    toy.write("data/rows.csv", rows)
    toy.dvc("commit", "--quiet", "--force", "data/rows.csv.dvc")
    toy.dvc("repro", "--quiet")
