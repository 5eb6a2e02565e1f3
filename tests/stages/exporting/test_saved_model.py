import json

import pytest

from stages.errors import ModelError
from stages.exporting import saved_model
from stages.tasks import single_label
from tests import tiny_export

CODE = """
from transformers import BertConfig, BertForSequenceClassification


class OwnConfig(BertConfig):
    model_type = "own"


class OwnModel(BertForSequenceClassification):
    config_class = OwnConfig
"""
AUTO_MAP = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}


@pytest.fixture
def best(tmp_path, monkeypatch):
    """A checkpoint of a model that brings Python code of its own, fetched with model.trust_remote_code."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tiny_export.best(tmp_path / "best")
    (folder / "own.py").write_text(CODE, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": AUTO_MAP}))
    (folder / "source.json").write_text('{"name": "own", "trust_remote_code": true}')
    return folder


def test_a_model_with_code_that_is_trusted_is_loaded_from_the_copy(best, tmp_path):
    saved_model.copy(best, tmp_path / "exported")
    _, model = saved_model.load(tmp_path / "exported", single_label.AUTO_MODEL)
    assert type(model).__name__ == "OwnModel"
    assert not model.training


def test_code_that_is_not_trusted_is_not_run(best, tmp_path):
    (best / "source.json").write_text('{"name": "own", "trust_remote_code": false}')
    (best / "own.py").write_text("raise SystemExit('it ran')", encoding="utf-8")
    saved_model.copy(best, tmp_path / "exported")
    with pytest.raises(ModelError, match="trust_remote_code"):
        saved_model.load(tmp_path / "exported", single_label.AUTO_MODEL)
