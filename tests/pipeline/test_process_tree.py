"""Real processes. Each has `token`, a name of its own, among its arguments, by which all of a test's are found."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import pytest

from pipeline import process_tree
from tests import tiny

PATIENCE = 30.0

SAVES = """
import signal, sys, time
from pathlib import Path
def save(*_):
    Path(sys.argv[2]).open("a").write("saved\\n")
    sys.exit(5)
signal.signal(signal.SIGTERM, save)
print("working", flush=True)
time.sleep(600)
"""

IS_DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("working", flush=True)
time.sleep(600)
"""

LEAVES = """
import os, subprocess, sys
# A grandchild in a session of its own, that nobody waits for, that holds the pipe; with no environment, if asked.
environment = {} if "bare" in sys.argv[2:] else None
subprocess.Popen([sys.executable, "-c", sys.argv[3], sys.argv[1]], start_new_session=True, env=environment)
print("left", flush=True)
"""


@pytest.fixture
def token():
    made = uuid.uuid4().hex
    yield made
    for process in living(made):
        process.kill()


def living(token):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # A caller in another process has the token, too: what it runs is a script, not a supervisor.
            if token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def python(source, token, *arguments):
    return [sys.executable, "-c", source, token, *map(str, arguments)]


def wait_for(condition, what="it"):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"{what} did not come about"
        time.sleep(0.05)


class Heard(list):
    """Lines; `after(line)` is set when that line has come."""

    def __init__(self, line="working"):
        super().__init__()
        self.line = line
        self.stop = threading.Event()

    def say(self, line):
        self.append(line)
        if line == self.line:
            self.stop.set()


def test_lines_of_output_and_error_come_in_the_order_in_which_they_were_written():
    lines = []
    ended = process_tree.run(["sh", "-c", "for i in 1 2 3; do echo o$i; echo e$i >&2; done; exit 3"], say=lines.append)
    assert lines == ["o1", "e1", "o2", "e2", "o3", "e3"]
    assert (ended.code, ended.why) == (3, "exited")


def test_lines_come_while_the_command_runs(token):
    heard = Heard()
    ended = process_tree.run(["sh", "-c", "echo working; sleep 600", token], say=heard.say, stop=heard.stop)
    assert (ended.code, ended.why) == (-signal.SIGTERM, "stopped")


def test_environment_and_folder_are_those_given(tmp_path):
    lines = []
    process_tree.run(
        ["sh", "-c", "pwd; echo $COLOUR$HOME"], say=lines.append, cwd=tmp_path, environment={"COLOUR": "green"}
    )
    assert lines == [str(tmp_path), "green"]


@pytest.mark.parametrize(("command", "code"), [("kill -9 $$", -9), ("exit 255", 255), ("true", 0)])
def test_the_exit_code_is_the_commands(command, code):
    assert process_tree.run(["sh", "-c", command], say=print).code == code


def test_a_command_that_there_is_not_is_named():
    lines = []
    assert process_tree.run(["no-such-command"], say=lines.append).code == 127
    assert lines == ["error: no-such-command: No such file or directory"]


def test_the_log_has_all_lines_and_of_a_bar_the_last_state(tmp_path):
    lines, log = [], tmp_path / "logs" / "run" / "stage.log"
    for _ in range(2):
        process_tree.run(["sh", "-c", r"echo one; printf '\r1%%'; printf '\r2%%\n'"], say=lines.append, log=log)
    assert log.read_text().splitlines() == lines
    assert lines.count("one") == 2
    assert lines.count("2%") == 2


def test_a_log_that_cannot_be_written_is_said_and_ends_nothing():
    lines = []
    ended = process_tree.run(["sh", "-c", "echo one; echo two"], say=lines.append, log=Path("/dev/full"))
    assert ended.code == 0
    assert lines == ["/dev/full: No space left on device; no more lines are written there", "one", "two"]


@pytest.mark.parametrize("how", ["stop", "deadline"])
def test_what_saves_when_asked_is_asked_once_and_left_the_time(token, tmp_path, how):
    heard, saved = Heard(), tmp_path / "saved"
    ended = process_tree.run(
        python(SAVES, token, saved),
        say=heard.say,
        stop=heard.stop if how == "stop" else None,
        deadline_seconds=6.0 if how == "deadline" else None,
    )
    assert (ended.code, ended.why) == (5, "stopped" if how == "stop" else "deadline")
    assert saved.read_text() == "saved\n"
    assert living(token) == []


def test_what_is_deaf_to_it_is_killed_after_the_grace_time(token):
    heard = Heard()
    ended = process_tree.run(python(IS_DEAF, token), say=heard.say, stop=heard.stop, grace_seconds=1.0)
    assert (ended.code, ended.why) == (-signal.SIGKILL, "stopped")
    assert ended.seconds >= 1.0
    assert living(token) == []


@pytest.mark.parametrize("bare", ["with its environment", "bare"])
def test_who_left_the_tree_for_a_session_of_its_own_ends_with_it(token, bare):
    """Case 30: it holds the pipe, too."""
    began = time.monotonic()
    ended = process_tree.run(python(LEAVES, token, bare, IS_DEAF), say=print, grace_seconds=1.0)
    assert (ended.code, ended.why) == (0, "exited")
    assert living(token) == []
    assert time.monotonic() - began < PATIENCE


def test_the_helpers_of_one_who_is_asked_are_left_to_him(token, tmp_path):
    """A data loader's worker that dies in a save fails the save."""
    helper = "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: pathlib.Path(sys.argv[2])"
    helper += ".touch()); print('helping', flush=True); time.sleep(600)"
    boss = f"""
import signal, subprocess, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
helper = subprocess.Popen([sys.executable, "-c", {helper!r}, *sys.argv[1:3]], stdout=subprocess.PIPE)
helper.stdout.readline()
print("working", flush=True)
while not asked:
    time.sleep(0.05)
time.sleep(2)
helper.kill()
print("asked", len(asked), "helper ended", helper.wait())
"""
    heard = Heard()
    ended = process_tree.run(python(boss, token, tmp_path / "touched"), say=heard.say, stop=heard.stop)
    assert heard == ["working", "asked 1 helper ended -9"]
    assert (ended.code, ended.why) == (0, "stopped")
    assert not (tmp_path / "touched").exists()


STARTS = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("the launcher heard it", flush=True))
sys.exit(100 + subprocess.call([sys.executable, "-c", *sys.argv[2:]]))
"""


def test_of_a_launcher_the_work_is_asked_and_the_launcher_says_how_it_ended(token, tmp_path):
    heard = Heard()
    command = python(STARTS, token, SAVES, token, tmp_path / "saved")
    ended = process_tree.run(command, say=heard.say, stop=heard.stop, launcher=True)
    assert heard == ["working"]
    assert (ended.code, ended.why) == (105, "stopped")
    assert living(token) == []


def test_the_work_of_a_launcher_is_asked_once_however_long_it_takes_to_save(token):
    """A training takes a second signal, seconds after the first, as an order to drop its save."""
    counts = """
import signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("working", flush=True)
while not asked:
    time.sleep(0.05)
time.sleep(1)
print("asked", len(asked))
"""
    heard = Heard()
    process_tree.run(python(STARTS, token, counts, token), say=heard.say, stop=heard.stop, launcher=True)
    assert heard == ["working", "asked 1"]


def test_a_launcher_between_two_works_hears_the_signal_that_it_unwinds_at_even_under_nohup(token):
    alone = "import time\ntry:\n print('working', flush=True); time.sleep(600)\nexcept KeyboardInterrupt:\n exit(252)"
    heard = Heard()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = process_tree.run(python(alone, token), say=heard.say, stop=heard.stop, launcher=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ended.code, ended.why) == (252, "stopped")


def test_an_error_of_the_one_who_listens_ends_the_tree_first(token, tmp_path):
    def say(line):
        raise ValueError(line)

    with pytest.raises(ValueError, match="working"):
        process_tree.run(python(SAVES, token, tmp_path / "saved"), say=say)
    assert (tmp_path / "saved").read_text() == "saved\n"
    assert living(token) == []


CALLS = """
import sys, threading
sys.path.insert(0, sys.argv[2])
from pipeline import process_tree
def call():
    process_tree.run(sys.argv[4:], say=lambda line: print(line, flush=True), grace_seconds=float(sys.argv[3]))
if sys.argv[1] == "main":
    call()
else:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
"""


@pytest.fixture
def caller(token, tmp_path):
    """Starts a process that runs a command in a thread of it, or in its main thread, and is killed if it is left."""
    started = []

    def start(command, *, thread="own", grace=1.0):
        process = subprocess.Popen(
            [sys.executable, "-c", CALLS, thread, str(tiny.ROOT), str(grace), *command],
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "error").open("w"),
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "working\n", (tmp_path / "error").read_text()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def is_gone(token, but):
    return [one for one in living(token) if one.pid != but.pid] == []


@pytest.mark.parametrize("thread", ["own", "main"])
def test_the_tree_ends_with_a_caller_that_is_killed_and_is_asked_first(token, tmp_path, caller, thread):
    process = caller(python(SAVES, token, tmp_path / "saved"), thread=thread, grace=PATIENCE)
    process.kill()
    wait_for(lambda: is_gone(token, process), "the end of the tree")
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_who_is_deaf_ends_with_a_killed_caller_too_with_all_that_have_sessions_of_their_own(token, caller):
    both = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {IS_DEAF!r}, sys.argv[1]], start_new_session=True, stdout=subprocess.DEVNULL)
{IS_DEAF}
"""
    process = caller(python(both, token))
    process.kill()
    wait_for(lambda: is_gone(token, process), "the end of the tree")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_caller_that_a_signal_ends_leaves_nobody(token, tmp_path, caller, number):
    process = caller(python(SAVES, token, tmp_path / "saved"), thread="main", grace=PATIENCE)
    process.send_signal(number)
    assert process.wait(PATIENCE) == -number
    wait_for(lambda: is_gone(token, process), "the end of the tree")
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_a_group_that_is_killed_as_a_whole_leaves_the_stage_its_time_to_save(token, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", CALLS, "own", str(tiny.ROOT), "30", *python(SAVES, token, tmp_path / "saved")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "working\n"
    os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: is_gone(token, process), "the end of the tree")
    assert (tmp_path / "saved").read_text() == "saved\n"
    process.communicate()


def test_the_tree_ends_when_its_supervisor_is_killed(token):
    heard = Heard()

    def kill_the_supervisor():
        heard.stop.wait(PATIENCE)
        next(one for one in living(token) if "supervisor.py" in " ".join(one.cmdline())).kill()

    killer = threading.Thread(target=kill_the_supervisor)
    killer.start()
    ended = process_tree.run(python(IS_DEAF, token), say=heard.say, grace_seconds=1.0)
    killer.join()
    assert ended.code == -signal.SIGKILL
    assert living(token) == []


def test_a_process_that_the_caller_forked_does_not_keep_the_tree_alive(token, tmp_path):
    """It holds whatever the caller had open, the way to the supervisor, too."""
    forks = f"""
import os, sys, threading, time
sys.path.insert(0, {str(tiny.ROOT)!r})
from pipeline import process_tree
def fork(line):
    if os.fork() == 0:
        time.sleep(600)
    print(line, flush=True)
process_tree.run(sys.argv[2:], say=fork)
"""
    command = [sys.executable, "-c", forks, "forked " + token, *python(SAVES, token, tmp_path / "saved")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "working\n"
    process.kill()
    process.wait()
    try:
        wait_for((tmp_path / "saved").exists, "the save")
        wait_for(lambda: all("forked" in " ".join(one.cmdline()) for one in living(token)), "the end of the tree")
    finally:
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if "forked " + token in one.cmdline():
                    one.kill()
        process.stdout.close()


def test_many_runs_leave_no_file_open():
    process_tree.run(["true"], say=print)
    before = psutil.Process().num_fds()
    for _ in range(20):
        process_tree.run(["true"], say=print)
    assert psutil.Process().num_fds() == before


def test_many_at_once_from_threads_of_one_process_do_not_get_in_each_others_way():
    results = {}

    def call(number):
        lines = []
        ended = process_tree.run(["sh", "-c", f"echo {number}; exit {number}"], say=lines.append)
        results[number] = (ended.code, lines)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: (number, [str(number)]) for number in range(8)}
