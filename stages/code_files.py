"""Which of our files decide what a stage writes: its module, what that imports, and the files it looks up by name."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stages import lookup, tasks
from stages.errors import UserError

if TYPE_CHECKING:
    from stages.params import Params

ROOT = Path(__file__).parent

NOT_DECIDING = {
    "__init__.py",
    "code_files.py",
    "command.py",
    "contradictions.py",
    "errors.py",
    "identity.py",
    "knobs.py",
    "lifetime.py",
    "lookup.py",
    "params.py",
    "params_file.py",
    "progress.py",
    "training_arguments.py",
}
"""Files, relative to stages/, that tell a stage what to do, say how it goes, or find its state: they decide no byte."""


def the_task(params: "Params") -> list[str]:
    """The file of task.type."""
    return [f"tasks/{params.task.type}.py"]


def the_source(params: "Params") -> list[str]:
    """The file of data.format."""
    return [f"sources/{params.data.format}.py"]


def metric_of_choice(params: "Params") -> list[str]:
    """The file of select_best.metric."""
    return [f"metrics/{params.select_best.metric}.py"]


def metric_of_stopping(params: "Params") -> list[str]:
    """The file of train.early_stopping.metric; eval_loss needs none."""
    stopping = params.train.early_stopping
    return [f"metrics/{stopping.metric}.py"] if stopping and stopping.metric != "eval_loss" else []


def metrics_of_task(params: "Params") -> list[str]:
    """The files of all metrics that the task is scored by."""
    return [f"metrics/{name}.py" for name in lookup.find(tasks, params.task.type).METRICS]


LOOKED_UP: dict[str, tuple[Callable[["Params"], list[str]], ...]] = {
    "fetch_model": (the_task,),
    "fetch_data": (),
    "prepare": (the_task, the_source),
    "encode": (the_task,),
    "train": (the_task, metric_of_stopping),
    "evaluate": (the_task, metrics_of_task),
    "select_best": (metric_of_choice,),
    "test": (the_task, metrics_of_task),
    "export": (the_task, metric_of_choice),
}
"""Stage -> what it looks up by a name in params.yaml. A new stage, or a new lookup in one, is written down here."""


def decisive(stage: str, modules: Iterable[str], params: "Params") -> list[str]:
    """The files, relative to stages/, that decide what a stage of these modules writes with these params, sorted.

    Raises:
        KeyError: LOOKED_UP says nothing of the stage.
    """
    chosen = [file for choose in LOOKED_UP[stage] for file in choose(params)]
    return sorted(closure([*(f"{module}.py" for module in modules), *chosen]) - NOT_DECIDING)


def closure(files: Iterable[str]) -> set[str]:
    """Files of stages/ and all files of it that they import, at once or later; NOT_DECIDING is not looked into."""
    pending, found = list(files), set[str]()
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            if file not in NOT_DECIDING:
                pending.extend(imported(file))
    return found


@cache
def imported(file: str) -> set[str]:
    """The files of stages/ that a file imports itself, in functions too, with the packages that they lie in.

    Raises:
        UserError: it is not Python.
    """
    try:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"), filename=file)
    except SyntaxError as error:
        raise UserError(f"stages/{file}, line {error.lineno}: {error.msg}; mend the file") from None
    package = ["stages", *Path(file).parts[:-1]]
    return {part for name in _names(tree, package) for part in _files(name)}


def _names(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """The dotted names that a module imports, or may: of `from a import b`, both a and a.b."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        else:
            pending.extend(ast.iter_child_nodes(node))


def _files(name: str) -> Iterator[str]:
    """The files that importing a dotted name runs, if it is one of ours: the packages above it too."""
    top, *parts = name.split(".")
    if top == "stages":
        for depth in range(len(parts) + 1):
            path = "/".join(parts[:depth])
            for file in (f"{path}.py", f"{path}/__init__.py".lstrip("/")):
                if (ROOT / file).is_file():
                    yield file
