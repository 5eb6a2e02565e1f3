import os
import subprocess
import sys

import pytest

from stages import identity
from stages.errors import MachineError
from tests import tiny

FACTS = {"params": {"learning_rate": 1e-4}, "seed": 13, "inputs": {"encoded": {"train.arrow": "ab"}}}


def test_the_identity_changes_with_any_fact_and_not_with_their_order():
    assert identity.digest(FACTS) == identity.digest(dict(reversed(FACTS.items())))
    for changed in ({**FACTS, "seed": 14}, {**FACTS, "params": {"learning_rate": 2e-4}}, {**FACTS, "inputs": {}}):
        assert identity.digest(changed) != identity.digest(FACTS)


def test_inputs_are_known_by_name_and_content_wherever_they_lie(tmp_path):
    for clone in ("a", "b"):
        (tmp_path / clone / "sub").mkdir(parents=True)
        (tmp_path / clone / "sub/file").write_text("same")
    assert identity.digests(tmp_path / "a") == identity.digests(tmp_path / "b")
    (tmp_path / "b/sub/file").write_text("other")
    assert identity.digests(tmp_path / "a") != identity.digests(tmp_path / "b")


def test_the_code_in_use_is_what_is_imported_and_can_decide_a_byte():
    from stages.tasks import single_label

    used = identity.code_in_use()
    assert single_label
    assert {"tasks/single_label.py", "sequences.py", "checkpoints.py"} <= set(used)
    assert not {"errors.py", "command.py", "params.py", "lookup.py"} & set(used)


def test_a_second_process_at_the_same_training_is_refused_with_the_pid_of_the_first(tmp_path):
    with (
        identity.claimed(tmp_path / "state"),
        pytest.raises(MachineError, match=r"process \d+ is at this very training"),
        identity.claimed(tmp_path / "state"),
    ):
        pass
    with identity.claimed(tmp_path / "state"):
        pass


def test_the_state_lies_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("REMINT_STATE", str(tmp_path))
    assert identity.state_root() == tmp_path


def test_what_is_left_of_a_killed_run_is_waited_for(tmp_path, caplog):
    holder = "import sys, time; from pathlib import Path; from stages import identity\n"
    holder += "with identity.claimed(Path(sys.argv[1])): print('held', flush=True); time.sleep(2)"
    command = [sys.executable, "-c", holder, str(tmp_path / "state")]
    process = subprocess.Popen(command, cwd=tiny.ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    caplog.set_level("INFO", logger="stages")
    with identity.claimed(tmp_path / "state", patience_seconds=30):
        assert f"process {process.pid} is at this very training: waiting for its end" in caplog.text
        assert process.wait() == 0
    process.stdout.close()


def test_a_state_that_its_holder_has_removed_is_claimed_anew(tmp_path):
    holder = "import shutil, sys, time; from pathlib import Path; from stages import identity\n"
    holder += "with identity.claimed(Path(sys.argv[1])):\n"
    holder += "    print('held', flush=True); time.sleep(1); shutil.rmtree(sys.argv[1])"
    command = [sys.executable, "-c", holder, str(tmp_path / "state")]
    with subprocess.Popen(command, cwd=tiny.ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with identity.claimed(tmp_path / "state", patience_seconds=30):
            assert (tmp_path / "state/lock").read_text() == f"{os.getpid()}\n"
