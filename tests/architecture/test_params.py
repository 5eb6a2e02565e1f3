"""params.yaml, its types, its schema and its users name the same knobs."""

import ast
import re

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from stages.params import Params
from tests import tiny

# What only says how to read params, or makes up some of it: no use of a knob.
NOT_USES = {"params.py", "knobs.py", "params_file.py", "contradictions.py", "training_arguments.py"}


def sections(model, above=""):
    """Dotted name -> the class of each section; "" is the whole."""
    yield above, model
    for name, field in model.model_fields.items():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from sections(part, f"{above}.{name}".lstrip("."))


SECTIONS = dict(sections(Params))
FIELDS = [f"{place}.{name}".lstrip(".") for place, model in SECTIONS.items() for name in model.model_fields]


def used():
    """The attributes that our code reads, and the names in dvc.yaml's templates."""
    files = [
        file
        for folder in ("stages", "pipeline")
        for file in (tiny.ROOT / folder).rglob("*.py")
        if file.name not in NOT_USES
    ]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    templates = re.findall(r"\$\{([\w.]+)\}", (tiny.ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    return attributes | strings | {name.rpartition(".")[2] for name in templates}


def test_there_are_knobs_to_check():
    assert len(SECTIONS) >= 15
    assert len(FIELDS) >= 70
    assert "train.early_stopping.patience" in FIELDS


def test_every_knob_is_used():
    names = used()
    assert [place for place in FIELDS if place.rpartition(".")[2] not in names] == []


def test_params_yaml_states_the_sections_and_knobs_in_the_order_of_their_types():
    def check(tree, model):
        assert list(tree) == list(model.model_fields)
        for name, section in dict(sections(model)).items():
            if name and "." not in name and isinstance(tree[name], dict):
                check(tree[name], section)

    check(YAML(typ="safe").load(tiny.ROOT / "params.yaml"), Params)


def test_sections_are_in_the_order_of_the_stages_that_are_named_like_them():
    stages = list(YAML(typ="safe").load(tiny.ROOT / "dvc.yaml")["stages"])
    named = [name for name in Params.model_fields if name in stages]
    assert named == [name for name in stages if name in named]
    assert len(named) >= 6


def test_editors_are_told_of_the_schema():
    first = (tiny.ROOT / "params.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=params.schema.json"
    assert (tiny.ROOT / "params.schema.json").is_file()


@pytest.mark.parametrize("place", [place for place in SECTIONS if place])
def test_a_section_is_closed_strict_and_says_what_it_is(place):
    model = SECTIONS[place]
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["strict"] is True
    assert model.model_config["frozen"] is True
    assert model.__doc__
