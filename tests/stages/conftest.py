"""Where the train stage runs on tiny data: tests/training_runs.py."""

import pytest

from tests import tiny
from tests.training_runs import Workspace, encode


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.model(tmp_path_factory.mktemp("base") / "model", dropout=0.0)


@pytest.fixture(scope="module")
def base_with_dropout(tmp_path_factory):
    return tiny.model(tmp_path_factory.mktemp("base") / "model", dropout=0.1)


@pytest.fixture(scope="module")
def encoded(base, tmp_path_factory):
    return encode(tmp_path_factory.mktemp("rows") / "encoded", base, "single_label")


@pytest.fixture
def workspace(tmp_path, encoded, base_with_dropout):
    return Workspace(tmp_path, encoded, base_with_dropout)
