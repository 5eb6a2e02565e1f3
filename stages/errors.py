"""What a user, a gate or the machine can get wrong, each with its exit code. Anything else that is raised is a bug.

A message says where, what was found, and what to do. Exit codes: 2 the user's input, 3 a gate, 4 the machine,
5 stopped on request with the state saved; a bug exits with 1 and keeps its traceback.
"""

from typing import ClassVar


class RemintError(Exception):
    """A foreseen end of a stage: reported as one message, without a traceback."""

    exit_code: ClassVar[int] = 1


class UserError(RemintError):
    """A mistake the user can fix."""

    exit_code = 2


class ParamsError(UserError):
    """params.yaml does not describe a run."""


class DataError(UserError):
    """An input file is missing, empty or malformed."""


class ModelError(UserError):
    """The model to start from is missing, not the one that was pinned, or can't do the task."""


class EnvironmentMismatchError(UserError):
    """What is installed is not what the lock file says."""


class NotFiniteError(RemintError):
    """A loss or a gradient is NaN or infinite: nothing of what the training would go on to make is of use."""

    exit_code = 1


class GateError(RemintError):
    """A model was made, and is not good enough to go on with."""

    exit_code = 3


class MachineError(RemintError):
    """Disk, memory or a process gave out; the same run can succeed elsewhere or later."""

    exit_code = 4


class StoppedError(RemintError):
    """Stopped on request, with the state saved: the same command goes on from there."""

    exit_code = 5
