"""Real dvc on a graph whose stages take no time."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from pipeline import dvc_cli
from stages.errors import MachineError, StoppedError, UserError
from tests import tiny
from tests.end_to_end import project as projects

GRAPH = """
stages:
  first:
    cmd: python work.py copy data/raw.txt first.txt
    params: [knobs]
    deps: [data/raw.txt, work.py]
    outs: [first.txt]
  each:
    matrix: {seed: [1, 2]}
    cmd: python work.py copy first.txt each${item.seed}.txt
    deps: [first.txt]
    outs: ["each${item.seed}.txt"]
  last:
    cmd: python work.py copy each1.txt last.txt
    deps: [each1.txt, each2.txt]
    outs: [last.txt]
"""

WORK = """
import os, pathlib, signal, sys, time
verb, *arguments = sys.argv[1:]
if verb == "copy":
    print("Stage 'first' didn't change, skipping", flush=True)
    pathlib.Path(arguments[1]).write_text(pathlib.Path(arguments[0]).read_text())
elif verb == "exit":
    print("the last words", file=sys.stderr)
    sys.exit(int(arguments[0]))
elif verb == "kill":
    os.kill(os.getpid(), int(arguments[0]))
elif verb == "sleep":
    print("working", flush=True)
    time.sleep(600)
"""

OURS = """
import signal, sys, time
from stages import command
from stages.errors import *
def main(how: str) -> None:
    if how == "bug":
        raise KeyError("what")
    if how == "saves":
        def save(*_):
            raise StoppedError("stopped at step 7; the same command goes on from there")
        signal.signal(signal.SIGTERM, save)
        print("working", flush=True)
        time.sleep(600)
    raise {"user": DataError, "gate": GateError, "machine": MachineError}[how]("rows.csv: says " + how)
command.run(main)
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A checkout that has run once, and is committed."""
    base = tmp_path_factory.mktemp("dvc")
    root = base / "checkout"
    (root / "data").mkdir(parents=True)
    (root / "dvc.yaml").write_text(GRAPH)
    (root / "work.py").write_text(WORK)
    (root / "ours.py").write_text(OURS)
    (root / "params.yaml").write_text("knobs: {a: 1, b: 2}\n")
    (root / "data/raw.txt").write_text("raw")
    settings = {**os.environ, **environment(base)}
    dvc = [sys.executable, "-m", "dvc"]
    for command in (
        ["git", "init", "--quiet"],
        [*dvc, "init", "--quiet"],
        [*dvc, "add", "--quiet", "data/raw.txt"],
        [*dvc, "repro", "--quiet"],
    ):
        subprocess.run(command, cwd=root, env=settings, check=True, capture_output=True)
    return base


def environment(base):
    return {
        "HOME": str(base),
        "DVC_SITE_CACHE_DIR": str(base / "site"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(tiny.ROOT),
        "DVC_NO_ANALYTICS": "1",
        "SHELL": "/bin/sh",
    }


@pytest.fixture
def checkout(template, tmp_path, monkeypatch):
    base = tmp_path / "base"
    shutil.copytree(template, base, symlinks=True)
    for name, value in environment(base).items():
        monkeypatch.setenv(name, value)
    return base / "checkout"


def add_stage(checkout, command, outs="[new.txt]", deps="[first.txt]"):
    with (checkout / "dvc.yaml").open("a") as file:
        file.write(f"  new:\n    cmd: {command}\n    deps: {deps}\n    outs: {outs}\n")


def failure(checkout, stage="new", **arguments):
    arguments.setdefault("say", print)
    with pytest.raises(dvc_cli.StageFailed) as raised:
        dvc_cli.reproduce(checkout, stage, **arguments)
    return raised.value


def processes(checkout):
    """Those that run in the checkout."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.cwd() == str(checkout) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.Error:
            continue
    return found


def test_the_graph_has_the_items_of_a_matrix_and_the_data_that_dvc_tracks(checkout):
    assert dvc_cli.graph(checkout) == {
        "data/raw.txt.dvc": set(),
        "first": {"data/raw.txt.dvc"},
        "each@1": {"first"},
        "each@2": {"first"},
        "last": {"each@1", "each@2"},
    }


def test_nothing_has_changed_after_a_run(checkout):
    assert dvc_cli.look(checkout).changed == {}


def test_what_has_changed_is_named_with_the_reason(checkout):
    (checkout / "params.yaml").write_text("knobs: {a: 1, b: 3}\n")
    (checkout / "each2.txt").unlink()
    (checkout / "data/raw.txt").unlink()
    (checkout / "data/raw.txt").write_text("new rows")
    with (checkout / "dvc.yaml").open("a") as file:
        file.write("  now: {cmd: date > now.txt, always_changed: true, outs: [now.txt]}\n")
    found = dvc_cli.look(checkout)
    assert set(found.graph) >= set(found.changed)
    assert found.changed == {
        "data/raw.txt.dvc": {"data/raw.txt: modified"},
        "first": {"data/raw.txt: modified", "knobs: modified"},
        "each@2": {"each2.txt: deleted"},
        "last": {"each2.txt: deleted"},
        "now": {"now.txt: deleted", "always changed"},
    }


def test_a_stage_is_unchanged_run_or_restored_whatever_it_prints_itself(checkout):
    lines = []
    assert dvc_cli.reproduce(checkout, "first", say=lines.append) == "unchanged"
    assert dvc_cli.reproduce(checkout, "data/raw.txt.dvc", say=lines.append) == "unchanged"
    (checkout / "data/raw.txt").unlink()
    (checkout / "data/raw.txt").write_text("new rows")
    assert dvc_cli.reproduce(checkout, "data/raw.txt.dvc", say=lines.append) == "ran"
    assert dvc_cli.reproduce(checkout, "first", say=lines.append) == "ran"
    assert lines.index("Running stage 'first':") < lines.index("Stage 'first' didn't change, skipping", 3)
    assert (checkout / "first.txt").read_text() == "new rows"
    (checkout / "first.txt").unlink()
    assert dvc_cli.reproduce(checkout, "first", say=lines.append) == "restored"
    (checkout / "data/raw.txt").unlink()
    (checkout / "data/raw.txt").write_text("raw")
    assert dvc_cli.reproduce(checkout, "first", say=lines.append) == "restored"
    assert (checkout / "first.txt").read_text() == "raw"


def test_an_item_of_a_matrix_is_run_alone_and_its_log_kept(checkout, tmp_path):
    (checkout / "first.txt").unlink()
    (checkout / "first.txt").write_text("other")
    lines = []
    assert dvc_cli.reproduce(checkout, "each@2", say=lines.append, log=tmp_path / "log") == "ran"
    assert (checkout / "each1.txt").read_text() == "raw"
    assert (checkout / "each2.txt").read_text() == "other"
    assert (tmp_path / "log").read_text().splitlines() == lines


def test_a_stage_gets_what_is_added_to_its_environment_and_this_python(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("DVC_STAGE", "another")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    code = "import os, sys; print(os.environ['GPU'], os.environ['DVC_STAGE'], sys.flags.safe_path, sys.executable)"
    add_stage(checkout, f'python -c "{code}" > new.txt')
    assert dvc_cli.reproduce(checkout, "new", say=print, environment={"GPU": "1"}) == "ran"
    assert (checkout / "new.txt").read_text() == f"1 new False {sys.executable}\n"


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("user", 2, "rows.csv: says user"),
        ("gate", 3, "rows.csv: says gate"),
        ("machine", 4, "rows.csv: says machine"),
    ],
)
def test_a_stage_of_ours_fails_with_its_own_code_and_message(checkout, how, code, message):
    add_stage(checkout, f"exec python ours.py {how}")
    failed = failure(checkout)
    assert (failed.stage, failed.code, failed.exit_code, failed.why) == ("new", code, code, "exited")
    assert failed.message == message
    assert str(failed) == f"new: {message}"
    same = pickle.loads(pickle.dumps(failed))
    assert (same.stage, same.code, same.message, same.why) == (failed.stage, code, message, "exited")


def test_a_bug_of_ours_comes_with_its_traceback(checkout):
    add_stage(checkout, "exec python ours.py bug")
    failed = failure(checkout)
    assert failed.code == 1
    assert failed.message.startswith("Traceback")
    assert "KeyError: 'what'" in failed.message


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("python work.py exit 3", 3, "the last words"),
        ("python work.py exit 77", 1, "the last words"),
        ("exec python work.py kill 9", 4, "killed by signal 9; memory may have run out"),
        ("python work.py kill 15; exit $?", 4, "killed by signal 15"),
        ("no-such-program", 2, "no-such-program: not found"),
    ],
)
def test_any_other_command_fails_with_its_code_and_last_words(checkout, command, code, message):
    add_stage(checkout, command)
    failed = failure(checkout)
    assert failed.code == code
    assert failed.message.endswith(message)
    assert "ERROR" not in failed.message


@pytest.mark.parametrize(
    ("graph", "code", "message"),
    [
        ("  new: {cmd: 'true', deps: [nothing.txt]}\n", 2, "dependency 'nothing.txt' does not exist"),
        ("  new: {cmd: 'true', outs: [unwritten.txt]}\n", 2, "output 'unwritten.txt' does not exist"),
        ("  new: {cmd: 'true', output: [x]}\n", 2, "extra keys not allowed, in stages -> new -> output"),
        ("  new: {cmd: 'echo ${no.such}'}\n", 2, "Could not find 'no.such'"),
        ("  other: {cmd: 'true'}\n", 2, "'new' not found"),
    ],
)
def test_where_dvc_itself_says_no_its_words_are_the_message(checkout, graph, code, message):
    with (checkout / "dvc.yaml").open("a") as file:
        file.write(graph)
    failed = failure(checkout)
    assert failed.code == code
    assert message in failed.message


def test_a_graph_that_cannot_be_read_is_the_users(checkout):
    (checkout / "dvc.yaml").write_text("stages:\n  a: {cmd: 'echo ${no.such}'}\n")
    with pytest.raises(UserError, match=r"^failed to parse 'stages.a.cmd' in 'dvc.yaml': Could not find 'no.such'$"):
        dvc_cli.look(checkout)
    (checkout / "dvc.yaml").write_text("stages: [\n")
    with pytest.raises(UserError, match=r"'\./dvc.yaml' is invalid"):
        dvc_cli.look(checkout)


def test_a_folder_that_is_no_project_is_the_users(tmp_path):
    with pytest.raises(UserError, match="not inside of a DVC repository"):
        dvc_cli.look(tmp_path)


@pytest.fixture
def by_hand(checkout):
    """`dvc repro` of a long stage, by hand."""
    add_stage(checkout, "exec python work.py sleep")
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "new"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    assert any(line == b"working\n" for line in iter(process.stdout.readline, b""))
    yield process
    for one in [*psutil.Process(process.pid).children(recursive=True), process]:
        one.kill()
    process.communicate()


def test_a_dvc_by_hand_at_the_same_stage_is_named_and_the_machines(checkout, by_hand):
    """A second try, later, finds it gone."""
    failed = failure(checkout)
    assert failed.code == 4
    assert "is busy" in failed.message
    assert f"(PID {by_hand.pid})" in failed.message
    with pytest.raises(MachineError, match=rf"\(PID {by_hand.pid}\)"):
        dvc_cli.look(checkout)
    assert dvc_cli.reproduce(checkout, "last", say=print) == "unchanged"


def reproduce_until_it_works(checkout, **arguments):
    stop, lines = threading.Event(), []

    def say(line):
        lines.append(line)
        if line == "working":
            stop.set()

    failed = failure(checkout, say=say, stop=stop, **arguments)
    assert processes(checkout) == []
    return failed, lines


def test_a_stage_that_is_stopped_saves_and_dvc_leaves_no_lock(checkout):
    add_stage(checkout, "exec python ours.py saves")
    failed, lines = reproduce_until_it_works(checkout)
    assert (failed.code, failed.why) == (5, "stopped")
    assert failed.message == "stopped on request: stopped at step 7; the same command goes on from there"
    assert any("failed to reproduce 'new'" in line for line in lines)
    assert dvc_cli.look(checkout).changed.keys() == {"new"}
    again = []
    failure(checkout, say=again.append, deadline_seconds=5.0)
    assert not any("had been killed" in line for line in again)


def test_a_stage_that_knows_nothing_of_stopping_is_stopped(checkout):
    add_stage(checkout, "exec python work.py sleep")
    failed, _ = reproduce_until_it_works(checkout)
    assert (failed.code, failed.why) == (5, "stopped")


def test_a_stage_that_is_deaf_is_killed_with_dvc(checkout):
    add_stage(checkout, "trap '' TERM; python work.py sleep; true")
    failed, _ = reproduce_until_it_works(checkout, grace_seconds=1.0)
    assert (failed.code, failed.why) == (5, "stopped")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("exec python ours.py saves", 5, "stopped at step 7; the same command goes on from there"),
        ("exec python work.py sleep", 4, "killed by signal 15"),
    ],
)
def test_at_its_deadline_a_stage_is_stopped_and_the_message_says_so(checkout, command, code, message):
    add_stage(checkout, command)
    failed = failure(checkout, deadline_seconds=10.0)
    assert (failed.code, failed.why) == (code, "deadline")
    assert failed.message.startswith("not done by its deadline of 10 s, and stopped: ")
    assert failed.message.endswith(message)
    assert processes(checkout) == []


def test_a_run_that_is_stopped_before_it_begins_does_not_begin(checkout):
    add_stage(checkout, "exec python work.py sleep")
    stop = threading.Event()
    stop.set()
    assert failure(checkout, stop=stop).code == 5
    with pytest.raises(StoppedError):
        dvc_cli.look(checkout, stop=stop)
    assert processes(checkout) == []


def test_a_dvc_that_is_killed_takes_its_stage_along_and_is_the_machines_fault(checkout):
    add_stage(checkout, "exec python ours.py saves")

    def kill(line):
        if line == "working":
            next(
                one
                for one in processes(checkout)
                if "repro" in one.cmdline() and "supervisor.py" not in str(one.cmdline())
            ).kill()

    failed = failure(checkout, say=kill)
    assert (failed.code, failed.why) == (4, "exited")
    assert failed.message.startswith("dvc was killed by signal 9; the stage: stopped at step 7")
    assert processes(checkout) == []


def test_two_stages_run_side_by_side(checkout):
    """Each waits until the other has begun."""
    code = (
        "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch()\\nwhile not pathlib.Path(sys.argv[2]).exists():"
    )
    (checkout / "meet.py").write_text(code.replace("\\n", "\n") + " time.sleep(0.05)\n")
    with (checkout / "dvc.yaml").open("a") as file:
        for one, other in (("a", "b"), ("b", "a")):
            file.write(f"  {one}: {{cmd: python meet.py {one} {other}, deps: [first.txt], outs: [{one}]}}\n")
    outcomes = {}
    threads = [
        threading.Thread(target=lambda name=name: outcomes.update({name: dvc_cli.reproduce(checkout, name, say=print)}))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    for thread in threads:
        thread.join(until - time.monotonic())
    assert outcomes == {"a": "ran", "b": "ran"}
    assert dvc_cli.look(checkout).changed == {}


@pytest.mark.slow
def test_a_training_past_its_deadline_has_saved_and_the_next_run_goes_on_from_there(tmp_path, monkeypatch):
    project = projects.create(tmp_path / "project", tmp_path / "home")
    project.set(**{"train.max_steps": 100_000, "train.eval_strategy": "steps", "train.eval_steps": 50_000})
    project.repro("encode")
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    failed = failure(project.root, "train@13", deadline_seconds=60.0)
    assert (failed.code, failed.why) == (5, "deadline"), failed.message
    assert processes(project.root) == []
    goes_on, lines = threading.Event(), []

    def say(line):
        lines.append(line)
        if "going on from step" in line:
            goes_on.set()

    again = failure(project.root, "train@13", say=say, stop=goes_on)
    assert (again.code, again.why) == (5, "stopped"), lines
    assert processes(project.root) == []
