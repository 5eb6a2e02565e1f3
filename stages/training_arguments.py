"""What train.arguments may hold: each field of transformers.TrainingArguments is ours, refused or allowed.

Names and types: training_arguments.json, by `python -m scripts.generate`; checking imports no transformers.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from stages.lookup import nearest


def _by_name(groups: Mapping[str, str]) -> dict[str, str]:
    """Explanation -> its names, turned round."""
    return {name: explanation for explanation, names in groups.items() for name in names.split()}


_SAME_NAME = (
    "num_train_epochs max_steps learning_rate lr_scheduler_type warmup_steps optim weight_decay max_grad_norm "
    "label_smoothing_factor full_determinism train_sampling_strategy eval_strategy eval_steps logging_steps"
)

OURS = {name: f"train.{name} decides it" for name in _SAME_NAME.split()} | _by_name(
    {
        "dvc.yaml says where the train stage writes": "output_dir",
        "train.batch_size and train.max_rows_per_device decide it": (
            "per_device_train_batch_size gradient_accumulation_steps"
        ),
        "train.max_rows_per_device decides it: what a machine has free at the moment must not": "auto_find_batch_size",
        "train.max_rows_per_device decides it (after train, evaluate.batch_size)": "per_device_eval_batch_size",
        "train.precision decides it": "bf16 fp16",
        "train.logging_steps decides it": "logging_strategy logging_first_step",
        "train.eval_strategy and train.eval_steps decide it": "eval_delay",
        "train.early_stopping decides whether a metric is computed": "prediction_loss_only",
        "runtime.save_steps decides when the state that resume needs is saved": (
            "save_strategy save_steps save_total_limit save_only_model enable_jit_checkpoint save_on_each_node"
        ),
        "an interrupted training is resumed by running the same command again": (
            "resume_from_checkpoint ignore_data_skip restore_callback_states_from_checkpoint"
        ),
        "select_best.metric decides which checkpoint is the best": (
            "load_best_model_at_end metric_for_best_model greater_is_better"
        ),
        "seeds decides it, one training for each": "seed data_seed",
        "runtime.dataloader_num_workers decides it": "dataloader_num_workers",
        "runtime.log_level decides it": "log_level log_level_replica log_on_each_node",
        "train.processes decides it": "local_rank",
        "a GPU is used where there is one; CUDA_VISIBLE_DEVICES= in the environment hides it": "use_cpu",
        "the train stage ends at the first loss that is not finite": "logging_nan_inf_filter debug",
        "the train stage divides by the rows of the global batch": "average_tokens_across_devices",
        "the encode stage decides which columns there are": "remove_unused_columns label_names length_column_name",
        "the train stage decides how processes find each other": "ddp_backend ddp_timeout ddp_find_unused_parameters",
        "the train stage shows its own progress": "disable_tqdm",
    }
)
"""Field -> what decides it instead."""

REFUSED = _by_name(
    {
        "without effect: evaluation within train is ours, batch by batch in bounded memory": (
            "eval_on_start eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics "
            "batch_eval_metrics bf16_full_eval fp16_full_eval"
        ),
        "without effect: the global batches and their loading are ours": (
            "dataloader_drop_last dataloader_prefetch_factor dataloader_multiprocessing_context"
        ),
        "not exact: batches would come in an order that a resumed training does not repeat": (
            "dataloader_persistent_workers dataloader_in_order"
        ),
        "not exact: batches would no longer be those of train.batch_size": "accelerator_config",
        "not exact: the kernels that are compiled depend on the batches since the start, also on a resumed one": (
            "torch_compile torch_compile_backend torch_compile_mode"
        ),
        "without effect: no stage writes to the Hub; models/exported is a folder to upload": (
            "push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision"
        ),
        "without effect: train writes models/history/, which `dvc plots show` draws, and calls no tracker": (
            "report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id "
            "include_num_input_tokens_seen skip_memory_metrics"
        ),
        "without effect: each of train, evaluate and test is a stage of its own": "do_train do_eval do_predict",
        "without effect: no task here reads a cache in training": "use_cache",
        "not offered: every process holds the whole model": "fsdp fsdp_config deepspeed parallelism_config",
        "the package liger-kernel is not in requirements/stages.txt": "use_liger_kernel liger_kernel_config",
        "without effect: only the optimizers galore_* and apollo_* read it, whose packages are not in "
        "requirements/stages.txt": "optim_target_modules",
    }
)
"""Field -> why it is refused: without effect here, at odds with exact repetition, or not offered."""

ALLOWED: dict[str, tuple[float, float] | None] = {
    "adam_beta1": (0.0, 1.0),
    "adam_beta2": (0.0, 1.0),
    "adam_epsilon": (0.0, math.inf),
    "optim_args": None,
    "lr_scheduler_kwargs": None,
    "tf32": None,
    "activation_checkpointing": None,
    "activation_checkpointing_kwargs": None,
    "neftune_noise_alpha": (0.0, math.inf),
    "torch_empty_cache_steps": (1, math.inf),
    "dataloader_pin_memory": None,
    "ddp_bucket_cap_mb": (1, math.inf),
    "ddp_broadcast_buffers": None,
    "ddp_static_graph": None,
}
"""Field that is passed on -> where a number must lie: from the first (included) to the second (not included)."""

REPLACED = _by_name(
    {
        "its name is activation_checkpointing": "gradient_checkpointing",
        "its name is activation_checkpointing_kwargs": "gradient_checkpointing_kwargs",
        "eval_strategy replaced it": "evaluation_strategy evaluate_during_training",
        "warmup_steps replaced it, which below 1 is a share of all steps": "warmup_ratio",
        "use_cpu replaced it": "no_cuda",
        "train_sampling_strategy replaced it: group_by_length is one of its values": "group_by_length",
        "output_dir and resume_from_checkpoint replaced it": "overwrite_output_dir",
        "report_to replaced it, with TENSORBOARD_LOGGING_DIR in the environment": "logging_dir",
        "processing_class of Trainer replaced it; here fetch_model brings the model's own": "tokenizer",
        "per_device_train_batch_size replaced it": "per_gpu_train_batch_size",
        "per_device_eval_batch_size replaced it": "per_gpu_eval_batch_size",
        "bf16 and fp16 replaced it": "fp16_backend half_precision_backend fp16_opt_level",
        "optim replaced it: adafactor is one of its values": "adafactor",
        "include_for_metrics replaced it": "include_inputs_for_metrics",
        "include_num_input_tokens_seen replaced it": "include_tokens_per_second",
        "hub_token replaced it": "push_to_hub_token",
        "hub_model_id replaced it": "push_to_hub_model_id push_to_hub_organization",
        "fsdp_config replaced it": "fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap",
        "fsdp replaced it": "sharded_ddp",
        "ddp_backend replaced it": "xpu_backend",
        "accelerator_config replaced it": "dispatch_batches split_batches",
        "torch_compile replaced it": "torchdynamo jit_mode_eval",
        "debug replaced it": "tpu_metrics_debug",
        "transformers 5 writes nothing but safetensors": "save_safetensors",
        "transformers 5 uses an MPS device without being told": "use_mps_device",
        "transformers 5 dropped it without a replacement": (
            "use_ipex past_index mp_parameters ray_scope tpu_num_cores use_legacy_prediction_loop _n_gpu"
        ),
    }
)
"""A name of an older transformers -> what became of it; the first word is the field that replaced it, if any."""

OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "adagrad", "rmsprop")
"""Those that torch and transformers bring along."""

PACKAGES = {
    "torchao": r"adamw_torch_\dbit",
    "torch_xla": "adamw_torch_xla",
    "torch_npu": "adamw_torch_npu_fused",
    "torchdistx": "adamw_anyprecision",
    "galore_torch": "galore_.*",
    "apollo_torch": "apollo_.*",
    "lomo_optim": "(ada)?lomo",
    "grokadamw": "grokadamw",
    "schedulefree": "schedule_free_.*",
    "torch-optimi": "stable_adamw",
    "bitsandbytes": "(paged_)?(adamw|lion|ademamix)(_bnb)?(_8bit|_32bit)?|rmsprop_bnb.*",
}
"""Package -> the names (a regular expression) of the other optimizers that need it."""


_KINDS: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str, "dict": dict}


@cache
def schema() -> dict[str, Any]:
    """The fields with their types, the optimizers and the schedules of the transformers that is in the lock file."""
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def explain(name: str) -> str | None:
    """Of a name that is no knob of ours: what became of it, or None where it is unknown to transformers too."""
    if name in REPLACED:
        successor = explain(REPLACED[name].split()[0])
        return REPLACED[name] + (f"; here {successor}" if successor else "")
    if name in ALLOWED:
        return f"train.arguments takes it: write it as train.arguments.{name}"
    return OURS.get(name) or REFUSED.get(name)


def mistakes(arguments: Mapping[str, Any], *, schedule: str | None = None) -> dict[str, str]:
    """What is wrong with train.arguments: name -> message; `schedule` is train.lr_scheduler_type, if that is valid."""
    found = {}
    for name, value in arguments.items():
        if name not in ALLOWED:
            known = explain(name)
            unknown = f"transformers has no such argument{nearest(name, schema()['fields'])}"
            found[name] = f"it can't be given: {known}" if known else unknown
        elif wrong := _wrong_type(name, value) or _wrong_value(name, value):
            found[name] = wrong
    if "lr_scheduler_kwargs" not in found and schedule is not None:
        given = arguments.get("lr_scheduler_kwargs") or {}
        found |= {f"lr_scheduler_kwargs.{name}": wrong for name, wrong in _wrong_schedule(given, schedule)}
    return found


def optimizer_mistake(name: str) -> str | None:
    """Why train.optim can't be that name, or None."""
    if name in OPTIMIZERS:
        return None
    if name not in schema()["optimizers"]:
        return f"there is no optimizer {name}; there are {', '.join(OPTIMIZERS)}{nearest(name, OPTIMIZERS)}"
    package = next(package for package, names in PACKAGES.items() if re.fullmatch(names, name))
    return f"{name} needs the package {package}, which is not in requirements/stages.txt"


def schedule_mistake(name: str) -> str | None:
    """Why train.lr_scheduler_type can't be that name, or None."""
    known = schema()["schedules"]
    return None if name in known else f"there is no schedule {name}; there are {', '.join(known)}{nearest(name, known)}"


def _wrong_type(name: str, value: Any) -> str | None:
    types = list(schema()["fields"][name]["types"])
    if "dict" in types and "str" in types:
        types.remove("str")  # the path of a file: an input that DVC would not know of
    for kind in types:
        if kind == "null" and value is None:
            return None
        if kind in _KINDS and isinstance(value, _KINDS[kind]) and isinstance(value, bool) == (kind == "bool"):
            return None
    return f"should be {' or '.join(types)}, not {value!r}"


def _wrong_value(name: str, value: Any) -> str | None:
    limits = ALLOWED[name]
    if limits and value is not None and not limits[0] <= value < limits[1]:
        return f"should be at least {limits[0]:g} and less than {limits[1]:g}, not {value!r}"
    if name == "optim_args" and value is not None and not re.fullmatch(r"\w+=[^,=]+(, *\w+=[^,=]+)*", value):
        return f"should be like 'momentum=0.9,nesterov=true', not {value!r}"
    return None


def _wrong_schedule(given: Mapping[Any, Any], schedule: str) -> Iterator[tuple[str, str]]:
    takes = schema()["schedules"][schedule]
    known = takes["arguments"]
    for name in given:
        if name not in known:
            hint = nearest(str(name), known)
            yield name, f"the schedule {schedule} takes no such argument; it takes {', '.join(known) or 'none'}{hint}"
    for name in takes["required"]:
        if name not in given:
            yield name, f"the schedule {schedule} needs it"
    if "min_lr_rate" in known and not {"min_lr", "min_lr_rate"} & set(given):
        yield "min_lr", f"the schedule {schedule} needs it, or min_lr_rate"
