"""dvc.yaml and the stage files must agree: by what dvc.yaml says of a stage, DVC decides whether to skip it."""

import ast
import re
import shlex

import grimp
import pytest
from ruamel.yaml import YAML

from stages import code_files
from stages.check import filled, paths
from stages.params import load_params
from tests import tiny

GRAPH = YAML(typ="safe").load(tiny.ROOT / "dvc.yaml")
STAGES = GRAPH["stages"]
PARAMS = load_params(tiny.ROOT / "params.yaml")
KNOBS = PARAMS.model_dump()
IMPORTS = grimp.build_graph("stages", exclude_type_checking_imports=True)
NOT_DECIDING = {f"stages.{name.removesuffix('.py')}" for name in code_files.NOT_DECIDING} | {"stages.__init__"}
OTHERS = sorted(set(STAGES) - {"check"})


def modules(name):
    """The modules that a stage's command runs: the stage, and what starts it."""
    return re.findall(r"\bstages\.(\w+)", STAGES[name]["cmd"])


def decisive(name):
    """Dotted names of the files whose digests check writes for a stage."""
    files = code_files.decisive(name, modules(name), PARAMS)
    return {f"stages/{file}".removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files}


def tree(module):
    path = tiny.ROOT / module.replace(".", "/")
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def test_there_are_stages_to_check():
    assert len(STAGES) >= 10
    assert set(code_files.LOOKED_UP) == set(OTHERS)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_the_module_of_its_name(name):
    command = STAGES[name]["cmd"]
    assert command.startswith("exec python -m stages.")
    assert modules(name) in ([name], ["launch", name])
    assert f"stages.{name}" in IMPORTS.modules


@pytest.mark.parametrize("path", ["data/raw/my rows.csv", "data/raw/$HOME & co (`1`).csv", "~"])
def test_a_path_in_params_is_one_argument_of_a_command_whatever_characters_it_holds(path):
    knobs = {"data": {"raw": path}}
    commands = {name: filled(stage["cmd"], knobs) for name, stage in STAGES.items()}
    taking = [name for name, command in commands.items() if command != STAGES[name]["cmd"]]
    assert taking == ["prepare"]
    assert shlex.quote(path) in commands["prepare"]
    assert path in shlex.split(commands["prepare"])
    assert re.findall(r"\$\{(?!path\.|item\.|data\.raw\})", " ".join(commands.values())) == []


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_says_what_it_does(name):
    assert STAGES[name]["desc"]
    assert ast.get_docstring(tree(f"stages.{name}"))


@pytest.mark.parametrize("name", OTHERS)
def test_a_stage_depends_on_all_the_code_it_imports(name):
    declared = {
        filled(dep, KNOBS).removesuffix(".py").replace("/", ".")
        for dep in paths(STAGES[name]["deps"])
        if dep.startswith("stages/")
    }
    assert f"stages.{name}" in declared
    without = grimp.build_graph("stages", exclude_type_checking_imports=True)
    for module in NOT_DECIDING & without.modules:
        without.remove_module(module)
    chosen = {f"stages.{file.removesuffix('.py').replace('/', '.')}" for file in chosen_files(name)}
    roots = {f"stages.{module}" for module in modules(name)} | chosen
    needed = roots.union(*(without.find_upstream_modules(root) for root in roots))
    assert needed - decisive(name) - declared - {"stages"} == set()


@pytest.mark.parametrize("name", OTHERS)
def test_a_stage_depends_on_the_digests_of_its_code_and_on_the_versions(name):
    deps = paths(STAGES[name]["deps"])
    assert f"${{path.code}}/{name}.json" in deps
    assert "${path.lock}" in deps


@pytest.mark.parametrize("name", OTHERS)
def test_code_that_is_declared_by_name_is_used(name):
    for dep in paths(STAGES[name]["deps"]):
        if dep.startswith("stages/"):
            module = filled(dep, KNOBS).removesuffix(".py").replace("/", ".")
            assert module in decisive(name) | NOT_DECIDING, dep


def chosen_files(name):
    return [file for choose in code_files.LOOKED_UP[name] for file in choose(PARAMS)]


def looked_into(module):
    """The packages that a module finds files in by name: of lookup.find(tasks, ...), tasks."""
    found = set()
    for call in (node for node in ast.walk(tree(module)) if isinstance(node, ast.Call)):
        of, _, function = ast.unparse(call.func).rpartition(".")
        if (of, function) == ("lookup", "find") and ast.unparse(call.args[0]) != "package":
            found.add(ast.unparse(call.args[0]))
        if of == "metrics" and function in ("score", "available"):
            found.add("metrics")
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_stage_looks_up_by_name_is_written_down(name):
    used = set().union(*(looked_into(module) for module in decisive(name)))
    stopping = {"metrics"} if name == "train" else set()  # written down, and none while early_stopping is null
    assert used - stopping == {file.split("/")[0] for file in chosen_files(name)}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_imports_no_other_stage(name):
    others = {f"stages.{other}" for other in STAGES if other != name}
    assert IMPORTS.find_upstream_modules(f"stages.{name}") & others == set()


def read_params(module):
    """The knobs that a module reads: of params.data.columns.text, data.columns.text."""
    found = set()
    nodes = list(ast.walk(tree(module)))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        names = []
        while isinstance(node, ast.Attribute):
            names.insert(0, node.attr)
            node = node.value
        whole = (isinstance(node, ast.Name) and node.id == "params") or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_params"
        )
        if whole and names[0] in KNOBS and names[0] != "runtime":
            found.add(".".join(names))
    return found


def covers(wider, place):
    return f"{place}.".startswith(f"{wider}.")


@pytest.mark.parametrize("name", OTHERS)
def test_a_stage_declares_the_params_it_reads_and_no_others(name):
    declared = STAGES[name].get("params", [])
    read = read_params(f"stages.{name}").union(*(read_params(module) for module in decisive(name)))
    assert {place for place in read if not any(covers(wide, place) for wide in declared)} == set()
    assert [wide for wide in declared if not any(covers(wide, place) for place in read)] == []


def test_a_matrix_runs_over_the_seeds():
    assert {name for name in STAGES if "matrix" in STAGES[name]} == {"train", "evaluate"}
    for name in ("train", "evaluate"):
        assert STAGES[name]["matrix"] == {"seed": "${seeds}"}


def test_each_output_has_one_writer_and_each_input_is_written_or_given():
    outs = [out for stage in STAGES.values() for kind in ("outs", "metrics") for out in paths(stage.get(kind, []))]
    assert len(outs) == len(set(outs))
    given = ("stages", "params.yaml", "dvc.yaml", "${data.raw}", "${path.lock}")
    for name, stage in STAGES.items():
        for dep in paths(stage["deps"]):
            assert dep.startswith((*given, *outs)) or any(out.startswith(dep) for out in outs), (name, dep)


def test_what_check_writes_is_not_restored_in_place_of_running_it():
    """Restored from DVC's run-cache, check would not remove what a dropped seed has left; uncached outputs are not."""
    assert STAGES["check"]["outs"] == [{"${path.code}": {"cache": False}}]
