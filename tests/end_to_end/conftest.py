"""One project that `dvc repro` has taken through the whole graph, for all tests; and a copy of it for each."""

from dataclasses import dataclass

import pytest

from tests.end_to_end import project as projects
from tests.end_to_end.project import Project


@dataclass(frozen=True)
class FirstRun:
    """A project after its first run, committed."""

    project: Project
    ran: list[str]
    changed: list[str]
    """What git showed after the run."""


@pytest.fixture(scope="session")
def first_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    made = projects.create(folder / "project", folder / "home")
    ran = made.repro()
    changed = made.changed()
    made.commit()
    return FirstRun(made, ran, changed)


@pytest.fixture
def project(first_run, tmp_path):
    return projects.copy(first_run.project, tmp_path / "project", tmp_path / "home")
