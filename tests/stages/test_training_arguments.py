import ast
import json
import math

import pytest

from scripts import generate
from stages import training_arguments
from stages.params import load_params
from stages.training_arguments import (
    ALLOWED,
    OPTIMIZERS,
    OURS,
    PACKAGES,
    REFUSED,
    REPLACED,
    explain,
    mistakes,
    optimizer_mistake,
    schedule_mistake,
    schema,
)
from tests import tiny

VALID = {
    "adam_beta1": 0.8,
    "adam_beta2": 0.99,
    "adam_epsilon": 1e-6,
    "optim_args": "momentum=0.9,nesterov=true",
    "lr_scheduler_kwargs": None,
    "tf32": False,
    "activation_checkpointing": True,
    "activation_checkpointing_kwargs": {"use_reentrant": False},
    "neftune_noise_alpha": 5,
    "torch_empty_cache_steps": 10,
    "dataloader_pin_memory": False,
    "ddp_bucket_cap_mb": 25,
    "ddp_broadcast_buffers": False,
    "ddp_static_graph": False,
}


@pytest.mark.parametrize("path", generate.GENERATED)
def test_a_generated_file_is_current(path):
    made = generate.text(generate.GENERATED[path]())
    assert (tiny.ROOT / path).read_text(encoding="utf-8") == made, "run: python -m scripts.generate"


def test_every_field_of_training_arguments_has_its_verdict():
    fields = set(schema()["fields"])
    assert len(fields) == 114
    aliases = {"gradient_checkpointing", "gradient_checkpointing_kwargs"}
    assert set(OURS) | set(REFUSED) | set(ALLOWED) | aliases == fields
    assert len(OURS) + len(REFUSED) + len(ALLOWED) + len(aliases) == len(fields)
    assert set(REPLACED) & fields == aliases


def test_what_is_ours_names_a_knob_that_there_is_or_says_who_decides():
    params = tiny.params()
    words = {word.rstrip(",:;)") for text in OURS.values() for word in text.replace("(", "").split()}
    named = [word.split(".") for word in words if "." in word and word.split(".")[0] in params]
    assert len(named) > 15
    assert [place for place in named if place[1] not in params[place[0]]] == []


def test_all_that_is_allowed_is_taken_by_transformers_and_by_our_check(tmp_path):
    from transformers import TrainingArguments

    assert set(VALID) == set(ALLOWED)
    assert mistakes(VALID) == {}
    made = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", **VALID)
    assert {name: getattr(made, name) for name in VALID if name != "dataloader_pin_memory"} == {
        name: value for name, value in VALID.items() if name != "dataloader_pin_memory"
    }


def test_what_the_train_stage_sets_itself_is_not_allowed():
    sources = [file.read_text(encoding="utf-8") for file in (tiny.ROOT / "stages").rglob("*.py")]
    trees = [ast.parse(source) for source in sources if "TrainingArguments(" in source]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    set_there = strings & set(schema()["fields"])
    assert {"output_dir", "seed", "learning_rate"} <= set_there
    assert set_there - set(OURS) - set(REFUSED) == set()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("adam_beta1", "0.9", "should be float, not '0.9'"),
        ("adam_beta1", True, "should be float, not True"),
        ("adam_beta1", 1.0, "should be at least 0 and less than 1, not 1.0"),
        ("adam_epsilon", math.nan, "should be at least 0"),
        ("torch_empty_cache_steps", 0, "should be at least 1"),
        ("torch_empty_cache_steps", 2.5, "should be int or null, not 2.5"),
        ("activation_checkpointing", 1, "should be bool or null, not 1"),
        ("lr_scheduler_kwargs", "schedule.json", "should be dict or null, not 'schedule.json'"),
        ("optim_args", "momentum", "should be like 'momentum=0.9,nesterov=true', not 'momentum'"),
    ],
)
def test_a_wrong_value_is_named(name, value, expected):
    assert expected in mistakes({name: value})[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("output_dir", "dvc.yaml says where"),
        ("seed", "seeds decides it"),
        ("per_device_train_batch_size", "train.batch_size and train.max_rows_per_device"),
        ("learning_rate", "train.learning_rate"),
        ("fp16", "train.precision"),
        ("save_steps", "runtime.save_steps"),
        ("load_best_model_at_end", "select_best.metric"),
        ("push_to_hub", "no stage writes to the Hub"),
        ("torch_compile", "not exact"),
        ("evaluation_strategy", "eval_strategy replaced it; here train.eval_strategy decides it"),
        ("warmup_ratio", "train.warmup_steps"),
        ("no_cuda", "use_cpu replaced it"),
        ("group_by_length", "train.train_sampling_strategy"),
        ("logging_dir", "report_to replaced it"),
        ("overwrite_output_dir", "output_dir and resume_from_checkpoint replaced it"),
        ("tokenizer", "processing_class"),
        ("gradient_checkpointing", "its name is activation_checkpointing"),
        ("adam_epsilom", "transformers has no such argument; did you mean adam_epsilon?"),
    ],
)
def test_a_name_that_is_not_taken_says_what_decides_instead(name, expected):
    assert expected in mistakes({name: 1})[name]


def test_explain_is_silent_only_about_names_that_no_transformers_had():
    for name in (*schema()["fields"], *REPLACED):
        assert explain(name)
    assert explain("learnig_rate") is None


def test_every_optimizer_is_there_or_named_with_the_package_it_needs():
    names = schema()["optimizers"]
    assert set(OPTIMIZERS) <= set(names)
    for name in names:
        mistake = optimizer_mistake(name)
        assert (mistake is None) == (name in OPTIMIZERS)
        assert mistake is None or any(f"the package {package}," in mistake for package in PACKAGES)


def test_the_optimizers_that_are_offered_can_be_made_of_what_the_lock_file_holds():
    import torch
    from transformers import Trainer, TrainingArguments

    for name in OPTIMIZERS:
        made, settings = Trainer.get_optimizer_cls_and_kwargs(TrainingArguments(optim=name, use_cpu=True))
        made([torch.nn.Parameter(torch.zeros(2))], **settings)


def test_the_arguments_of_a_schedule_are_checked_as_transformers_would():
    import torch
    from transformers import get_scheduler

    given = {"warmup_stable_decay": {"num_decay_steps": 2}, "cosine_with_min_lr": {"min_lr": 0.0}}
    given["cosine_warmup_with_min_lr"] = {"min_lr_rate": 0.1}
    for name in schema()["schedules"]:
        for arguments in ({}, given.get(name, {})):
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
            ours = mistakes({"lr_scheduler_kwargs": arguments}, schedule=name)
            try:
                get_scheduler(name, optimizer, 1, 10, scheduler_specific_kwargs=arguments)
            except (TypeError, ValueError):
                assert ours
            else:
                assert ours == {}


def test_an_argument_that_a_schedule_does_not_take_is_named():
    found = mistakes({"lr_scheduler_kwargs": {"num_cycle": 2}}, schedule="cosine")
    expected = "the schedule cosine takes no such argument; it takes num_cycles; did you mean num_cycles?"
    assert found == {"lr_scheduler_kwargs.num_cycle": expected}
    assert "needs it" in mistakes({}, schedule="warmup_stable_decay")["lr_scheduler_kwargs.num_decay_steps"]


def test_an_unknown_schedule_is_named_with_the_nearest():
    assert schedule_mistake("polynomal").endswith("did you mean polynomial?")
    assert schedule_mistake("cosine") is None


def test_checking_params_imports_no_training_stack(tmp_path):
    import subprocess
    import sys

    tiny.write_params(tmp_path / "params.yaml", **{"train.arguments": {"adam_beta1": 0.8}})
    code = (
        f"import sys; sys.path.insert(0, {str(tiny.ROOT)!r})\n"
        "from stages.params import load_params; load_params()\n"
        "import json; print(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "datasets", "pandas", "sklearn", "scipy", "onnx", "onnxruntime", "pyarrow"}
    assert heavy & set(json.loads(ran.stdout)) == set()
    assert load_params(tmp_path / "params.yaml").train.arguments == {"adam_beta1": 0.8}
    assert training_arguments.schema()["optimizers"]
