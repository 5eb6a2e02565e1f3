import pytest
import transformers.training_args

from stages.errors import ParamsError
from stages.params import load_params
from stages.training import trainer
from stages.training.sampling import GlobalBatches
from tests import tiny


def test_what_transformers_refuses_on_this_machine_is_a_mistake_in_params(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.training_args, "is_torch_tf32_available", lambda: False)
    (tmp_path / "raw.csv").touch()
    params = load_params(tiny.write_params(tmp_path / "params.yaml", **{"train.arguments": {"tf32": True}}))
    batches = GlobalBatches([3] * 8, seed=0, batch_size=8, rows_at_once=8, rank=0, processes=1, group_by_length=False)
    with pytest.raises(ParamsError, match=r"train\.arguments: .*tf32 requires Ampere"):
        trainer.arguments(
            params.train, seed=0, precision="fp32", batches=batches, state=tmp_path, runtime=params.runtime
        )
