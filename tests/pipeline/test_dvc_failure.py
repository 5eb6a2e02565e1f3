import pytest

from pipeline import dvc_failure
from pipeline.dvc_failure import Own
from pipeline.process_tree import Ended

INTERRUPTED_START = ["Traceback:", '  File "fnmatch.py", line 14, in <module>', "KeyboardInterrupt"]
FAILED = [
    "> exec python work.py",
    "error: a bad row",
    "ERROR: failed to reproduce 'a': failed to run: x, exited with 2",
]


@pytest.mark.parametrize(
    ("why", "said", "own", "code"),
    [
        # dvc was asked to end while it started, and says so in words that could be anything.
        ("stopped", INTERRUPTED_START, None, 5),
        ("deadline", INTERRUPTED_START, None, 4),
        # The stage had a mistake to name, or saved.
        ("stopped", FAILED, None, 2),
        ("deadline", FAILED, None, 2),
        ("deadline", [], Own(5, "error: stopped at step 3"), 5),
        ("stopped", [], Own(4, "error: no memory"), 5),
    ],
)
def test_what_was_asked_to_end_is_nobodys_mistake_unless_the_stage_itself_says_so(why, said, own, code):
    failed = dvc_failure.of_stage("a", Ended(255, why, 1.0), said, own, 10.0)
    assert (failed.code, failed.why) == (code, why)
