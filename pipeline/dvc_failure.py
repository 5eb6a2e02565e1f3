"""How a stage ended, beside what DVC and the stage said -> whose fault it was, and the words for it.

`dvc repro` exits with 255 whatever a stage exits with. A stage of ours writes its code and message down for us
(stages/command.py); of any other DVC's last words have the code.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.process_tree import Ended, Why
from stages.errors import GateError, MachineError, RemintError, StoppedError, UserError

USER, GATE, MACHINE, STOPPED = (one.exit_code for one in (UserError, GateError, MachineError, StoppedError))
BUG = 1

INTERRUPTED = 252
"""dvc's exit code after SIGINT."""

SHOWN_LINES = 12
"""Of what a stage that is not ours said last."""

_OF_THE_MACHINE = re.compile(
    r"is busy, it is being blocked by|Unable to acquire lock|No space left on device|Disk quota exceeded"
    r"|Cannot allocate memory|Permission denied|Read-only file system|Input/output error|Too many open files"
)
"""In what DVC says of itself: what another try, later or elsewhere, can mend."""
_BUGS = re.compile(r"unexpected error|^Traceback ", re.MULTILINE)
_STAGES_CODE = re.compile(r"exited with (-?\d+)$", re.MULTILINE)
_ERROR = re.compile(r"^(?:\x1b\[\d+m)*ERROR(?:\x1b\[\d+m)*: ")


class Own(NamedTuple):
    """What a stage of ours wrote down."""

    code: int
    message: str


class StageFailed(RemintError):  # noqa: N818 - what became of it, like its fields
    """A stage was not brought up to date."""

    def __init__(self, stage: str, code: int, message: str, why: Why = "exited") -> None:
        super().__init__(stage, code, message, why)  # all of them: a flow passes it on pickled
        self.stage = stage
        self.code = code
        """What the stage exited with, by the meanings of stages/errors.py; in their terms, too, where DVC failed."""
        self.message = message
        """What the stage said last, or DVC."""
        self.why = why
        """deadline and stopped: it was asked to end."""
        self.exit_code = code  # type: ignore[misc]

    def __str__(self) -> str:
        return f"{self.stage}: {self.message}"


def of_stage(stage: str, ended: Ended, said: Sequence[str], own: Own | None, deadline: float | None) -> StageFailed:
    """The failure of a stage, by the lines that `dvc repro` and the stage have said."""
    of_stage, of_dvc = _parts(said)
    told = _STAGES_CODE.findall("\n".join(of_dvc))
    if own is not None:
        code, message = own.code, own.message.removeprefix("error: ")
    elif told:
        code, message = _meaning(int(told[-1])), _last_words(int(told[-1]), of_stage)
    else:
        code, message = of_dvc_itself(ended.code, said)
    if ended.code < 0 and own is not None:
        code, message = MACHINE, f"dvc was killed by signal {-ended.code}; the stage: {message}"
    # What dvc says of itself, when it was asked to end, may be the traceback of its interrupted start: no mistake.
    of_the_stage = own is not None or bool(told)
    if ended.why == "stopped":
        code = code if of_the_stage and code in (USER, GATE) else STOPPED
        message = f"stopped on request: {message}"
    elif ended.why == "deadline":
        code = code if of_the_stage and code in (USER, GATE, STOPPED) else MACHINE
        message = f"not done by its deadline of {deadline:g} s, and stopped: {message}"
    return StageFailed(stage, code, message, ended.why)


def of_dvc_itself(code: int, said: Sequence[str]) -> tuple[int, str]:
    """The code and the words of a dvc that failed before, after or without a stage."""
    _, of_dvc = _parts(said)
    words = "\n".join(line for line in of_dvc or said[-SHOWN_LINES:] if line.strip())
    words = re.sub(r"^failed to reproduce '[^']*': ", "", _ERROR.sub("", words))
    if code < 0:
        return MACHINE, f"dvc was killed by signal {-code}; run the same again"
    if code == INTERRUPTED:
        return STOPPED, "dvc was interrupted"
    words = words or f"dvc ended with exit code {code}, without a word"
    if _OF_THE_MACHINE.search(words):
        return MACHINE, words
    return BUG if _BUGS.search(words) else USER, words


def _parts(said: Sequence[str]) -> tuple[list[str], list[str]]:
    """What a stage said, and the error that DVC ended with."""
    errors = [number for number, line in enumerate(said) if _ERROR.match(line)]
    begin = next((number for number in reversed(errors) if "failed to reproduce" in said[number]), None)
    if begin is None:
        begin = errors[0] if errors else len(said)
    started = next((number for number, line in enumerate(said) if line.startswith("> ")), -1)
    return list(said[started + 1 : begin]), list(said[begin:])


def _meaning(code: int) -> int:
    """The exit code of a command that may know nothing of ours: killed is the machine's fault."""
    if code in (USER, GATE, MACHINE, STOPPED):
        return code
    if code in (126, 127):  # of a shell: the command can't be run
        return USER
    return MACHINE if code < 0 or code > 128 else BUG


def _last_words(code: int, said: Sequence[str]) -> str:
    lines = [line for line in said if line.strip()][-SHOWN_LINES:]
    signal = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        lines.append(f"killed by signal {signal}" + ("; memory may have run out" if signal == 9 else ""))
    return "\n".join(lines) or f"it ended with exit code {code}, without a word"
