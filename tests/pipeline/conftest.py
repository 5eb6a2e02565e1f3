import os

import pytest

from tests import toy_project
from tests.toy_project import Toy


@pytest.fixture(scope="session")
def made_toy(tmp_path_factory) -> Toy:
    return toy_project.make(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def made_and_rerun_toy(made_toy, tmp_path_factory) -> Toy:
    made = toy_project.copy(made_toy, tmp_path_factory.mktemp("rerun"))
    toy_project.rerun(made)
    return made


@pytest.fixture
def alone(tmp_path, monkeypatch) -> None:
    """Nobody's settings of git, DVC and the clouds."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "AWS_", "DVC_"))]:
        monkeypatch.delenv(name)
    for name, value in toy_project.environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")


@pytest.fixture
def toy(made_toy, tmp_path, alone) -> Toy:
    """A checkout of a graph of small stages that has run, with an origin and a DVC remote that have all of it."""
    return toy_project.copy(made_toy, tmp_path)


@pytest.fixture
def rerun_toy(made_and_rerun_toy, tmp_path, alone) -> Toy:
    """The same after new rows have come and the graph has run on them; nothing of that is committed or pushed."""
    return toy_project.copy(made_and_rerun_toy, tmp_path)
