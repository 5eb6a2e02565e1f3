import os
import re
import subprocess
import sys

import pytest

from pipeline import checkout_lock
from stages.errors import MachineError

HOLD = """
import sys
from pathlib import Path
from pipeline import checkout_lock
with checkout_lock.held(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_in_a_checkout_is_refused_with_pid_time_and_purpose_of_the_first(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    pattern = re.escape(f"process {holder.pid} (a test, since ") + r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\) is at work"
    with pytest.raises(MachineError, match=pattern), checkout_lock.held(tmp_path, "another"):
        pass
    holder.kill()
    holder.communicate()
    with checkout_lock.held(tmp_path, "another"):
        assert f"process {os.getpid()} (another" in (tmp_path / checkout_lock.FILE).read_text()
