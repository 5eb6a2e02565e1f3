"""The pages name only paths, commands and knobs that exist, and README draws the graph as it is."""

import ast
import importlib.util
import inspect
import re
import shlex
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import get_args

import pytest
import typer
from dvc.cli import DvcParserError
from dvc.cli.parser import get_main_parser
from pydantic import BaseModel
from ruamel.yaml import YAML

from pipeline.cli import app
from scripts import readme
from stages import predict
from stages.check import filled, paths
from stages.params import Params
from tests.tiny import ROOT

GRAPH = YAML(typ="safe").load(ROOT / "dvc.yaml")
LISTED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.splitlines()
FILES = {file for file in LISTED if (ROOT / file).is_file()}
FOLDERS = {str(folder) for file in FILES for folder in Path(file).parents} - {"."}
VALUES = {name: value for one in GRAPH["vars"] for name, value in one.items()}
OUTPUTS = {
    filled(path, VALUES).partition("/${")[0]
    for stage in GRAPH["stages"].values()
    for kind in ("outs", "metrics")
    for path in paths(stage.get(kind, []))
}
# What DVC, make and users write: in no clone, and not by a stage.
OTHERS_WRITE = {"dvc.lock", ".dvc/cache", ".dvc/config.local", ".venv", "logs"}

# CHANGELOG.md tells of the past too.
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
ALL_PAGES = [ROOT / file for file in sorted(FILES) if file.endswith(".md") and not file.startswith("data/raw/")]

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SUFFIXES = (".csv", ".in", ".json", ".lock", ".md", ".onnx", ".parquet", ".py", ".toml", ".tsv", ".txt", ".yaml")


def inline(page):
    """What stands between single backticks."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def fenced(page, language):
    return [block for _, of, block in FENCE.findall(page.read_text(encoding="utf-8")) if of == language]


def looks_like_a_path(code):
    if not re.fullmatch(r"[\w.<*-][\w.<>*/-]*", code):
        return False
    of_ours = code.split("/")[0] in {path.split("/")[0] for path in FILES}
    return code.endswith(("/", *SUFFIXES)) or ("/" in code and of_ours)


def names_in_code():
    """The file names that the stages' code has as strings: what they write into their outputs."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "stages").rglob("*.py")]
    constants = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {value for value in constants if isinstance(value, str) and value.endswith(SUFFIXES)}


KNOWN_NAMES = {Path(file).name for file in FILES} | names_in_code()


def exists(path):
    """Whether a path is in a clone, or a stage writes it; <what varies> may be anything, what stands before it not."""
    if "*" in path and "<" not in path:
        return any(fnmatch(file, path) for file in FILES)
    path = re.split(r"/?[^/]*<", path)[0].rstrip("/")
    if not path or path in FILES | FOLDERS | OUTPUTS | OTHERS_WRITE:
        return True
    in_an_output = not OUTPUTS.isdisjoint(str(folder) for folder in Path(path).parents)
    return (in_an_output or "/" not in path) and Path(path).name in KNOWN_NAMES


def is_knob(place):
    """Whether params.yaml has, or can have, a knob or a section at that place."""
    models = [Params]
    for name in place.split("."):
        fields = [model.model_fields[name] for model in models if name in model.model_fields]
        if not fields:
            return False
        parts = [part for field in fields for part in (field.annotation, *get_args(field.annotation))]
        models = [part for part in parts if inspect.isclass(part) and issubclass(part, BaseModel)]
    return True


def commands(page):
    """The commands of a page, each as a list of words."""
    lines = [line for block in fenced(page, "bash") for line in block.splitlines()]
    for line in [*lines, *inline(page)]:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quote that is no quote: not a command
            continue
        for command in shlex.join(words).replace("'&&'", "\0").replace("'|'", "\0").split("\0"):
            found = [word for word in shlex.split(command) if ">" not in word or "<" in word]
            if len(found) > 1:
                yield [Path(found[0]).name, *found[1:]]


TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
REMINT = {command.name or command.callback.__name__ for command in app.registered_commands}


def options_of(command):
    function = next((one.callback for one in app.registered_commands if one.callback.__name__ == command), None)
    alone = typer.Typer(add_completion=False)
    alone.command()(predict.main if command == "predict" else function or (lambda: None))
    return {option for parameter in typer.main.get_command(alone).params for option in parameter.opts} | {"--help"}


def wrong_in_make(words):
    return [word for word in words if "=" not in word and word not in TARGETS]


def wrong_in_remint(words):
    known = {*REMINT, *options_of(words[0])}
    return [word for word in words if word not in known and (word == words[0] or word.startswith("--"))]


def wrong_in_dvc(words):
    try:
        asked = get_main_parser().parse_args(words)
    except DvcParserError:
        return [" ".join(words)]
    stages = [target.partition("@")[0] for target in asked.targets or []] if words[0] == "repro" else []
    knobs = [setting.partition("=")[0] for setting in getattr(asked, "set_param", None) or []]
    return [name for name in stages if name not in GRAPH["stages"]] + [knob for knob in knobs if not is_knob(knob)]


def wrong_in_python(words):
    wrong = []
    if words[0] == "-m":
        module = words[1]
        wrong += [] if "<" in module or importlib.util.find_spec(module) else [module]
        words = words[2:]
    return wrong + [word for word in words if word.startswith(("tests", "bench")) and not exists(word)]


def wrong_in_files(words):
    """Of commands that read files of ours."""
    return [word for word in words if word.startswith(("presets/", "requirements/")) and not exists(word)]


WRONG = {
    "make": wrong_in_make,
    "remint": wrong_in_remint,
    "dvc": wrong_in_dvc,
    "python": wrong_in_python,
    "cp": wrong_in_files,
    "pip": wrong_in_files,
}


def section(page, heading):
    return page.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def map_of_readme():
    return FENCE.findall(section(ROOT / "README.md", "The map"))[0][2]


def drawn(graph):
    """The stages and the arrows of a Mermaid graph; a stage for each seed counts as one, raw data in DVC as none."""
    fence, kind, *lines, end = graph.splitlines()
    assert (fence, kind, end) == ("```mermaid", "flowchart TD", "```")
    names = dict(re.fullmatch(r' *(node\d+)\["([^"]+)"\]', line).groups() for line in lines if "-->" not in line)
    arrows = {re.fullmatch(r" *(node\d+)-->(node\d+)", line).groups() for line in lines if "-->" in line}
    stages = {node: name.partition("@")[0] for node, name in names.items() if not name.endswith(".dvc")}
    return set(stages.values()), {(stages[a], stages[b]) for a, b in arrows if a in stages and b in stages}


def block(name):
    return readme.pattern(name).findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page):
    assert [code for code in inline(page) if looks_like_a_path(code) and not exists(code)] == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [to for to in links if "://" not in to and not (page.parent / to).exists()] == []


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page):
    found = [(words, WRONG[words[0]](words[1:])) for words in commands(page) if words[0] in WRONG]
    assert [(" ".join(words), wrong) for words, wrong in found if wrong] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_knob_that_a_page_names_is_in_params(page):
    assert [place for place in knobs(page) if not is_knob(place)] == []


def knobs(page):
    """Dotted names that begin with a section of params.yaml: also of `task.type: regression`."""
    found = [re.match(r"([a-z_]+(?:\.\w+)+)(?:: .*)?$", code) for code in inline(page)]
    places = [match[1] for match in found if match and not match[1].endswith(SUFFIXES)]
    return [place for place in places if place.split(".")[0] in Params.model_fields]


def test_there_are_pages_with_enough_in_them_to_check():
    assert {"README.md", "CONTRIBUTING.md", "architecture.md", "adding.md", "production.md", "reliability.md"} <= {
        page.name for page in PAGES
    }
    assert len({code for page in PAGES for code in inline(page) if looks_like_a_path(code)}) >= 60
    assert len({place for page in PAGES for place in knobs(page)}) >= 20
    named = [words for page in ALL_PAGES for words in commands(page)]
    for program, at_least in {"make": 6, "remint": 4, "dvc": 20, "python": 5, "cp": 2, "pip": 2}.items():
        assert len({tuple(words) for words in named if words[0] == program}) >= at_least, program


@pytest.mark.parametrize("path", ["stages/tain.py", "stages/tools/", "models/exported/parity.yaml", "presets/*.csv"])
def test_a_path_that_does_not_exist_is_noticed(path):
    assert looks_like_a_path(path)
    assert not exists(path)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("make tests", "tests"),
        ("mkdir -p logs && remint predicts models/exported rows.csv out.csv", "predicts"),
        ("remint predict models/exported - - --int4", "--int4"),
        ("remint verify --comit v12", "--comit"),
        ("dvc exp runs", "exp runs"),
        ("dvc repro --forced", "repro --forced"),
        ("dvc repro trian@13 2>&1 | tee logs/run.txt", "trian"),
        ("dvc exp run -S train.learning_rates=1e-5   # a comment", "train.learning_rates"),
        ("python -m scripts.redme", "scripts.redme"),
        ("python -m pytest tests/stages/test_tain.py -q", "tests/stages/test_tain.py"),
        ("cp presets/mrcp.yaml params.yaml", "presets/mrcp.yaml"),
        ("venv/bin/pip install -r requirements/predicts.in", "requirements/predicts.in"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(tmp_path, line, wrong):
    page = tmp_path / "page.md"
    page.write_text(f"Do this:\n\n```bash\n{line}\n```\n", encoding="utf-8")
    found = [name for words in commands(page) if words[0] in WRONG for name in WRONG[words[0]](words[1:])]
    assert found == [wrong]


def test_the_graph_in_readme_is_dvcs():
    (graph,) = block("graph")
    stages, arrows = drawn(graph)
    assert (stages, arrows) == drawn(readme.graph()), "dvc.yaml has changed: run make readme"
    assert stages == set(GRAPH["stages"])
    assert len(arrows) >= 20


def test_the_table_of_stages_in_readme_is_that_of_dvc_yaml():
    assert block("stages") == [readme.stages()], "dvc.yaml has changed: run make readme"
    assert len(readme.stages().splitlines()) == 2 + len(GRAPH["stages"])


def test_what_makes_the_blocks_finds_them_and_changes_nothing_else():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in readme.BLOCKS:
        assert text.count(readme.block(name, block(name)[0])) == 1


def test_the_map_names_every_folder_every_stage_and_all_that_stages_share():
    wanted = {f"{file.split('/')[0]}/" for file in FILES if "/" in file}
    for folder in ("stages", "pipeline"):
        inside = [Path(file).relative_to(folder).parts for file in FILES if file.startswith(f"{folder}/")]
        wanted |= {f"{parts[0]}/" if len(parts) > 1 else parts[0] for parts in inside}
    wanted = {name for name in wanted if name != "__init__.py" and not name.endswith(".json")}
    assert len(wanted) >= 50
    assert sorted(wanted - set(re.findall(r"[\w.]+(?:/|\.py\b)", map_of_readme()))) == []


def test_what_the_map_names_exists():
    names = {Path(path).name for path in FILES | FOLDERS}
    named = re.findall(r"(?<![/\w<>])[\w.]+(?:/(?![\w<])|\.(?:py|yaml|txt|json)\b)", map_of_readme())
    assert len(named) >= 50
    assert [name for name in named if name.rstrip("/") not in names] == []
