"""What a base model must be for our tasks: known to transformers, fit for the task, with a tokenizer that can pad."""

import inspect
import json
from pathlib import Path
from typing import Any

from stages import lookup, tasks
from stages.errors import ModelError, UserError

SOURCE = "source.json"
_SANE_LENGTH = 10**6
"""Tokenizers that know no limit say 10^30."""


def trusts_remote_code(folder: Path) -> bool:
    """Whether a model (models/base, or what was trained from it) was fetched with model.trust_remote_code."""
    source = folder / SOURCE
    return source.is_file() and bool(json.loads(source.read_text(encoding="utf-8"))["trust_remote_code"])


def check(folder: Path, task: tasks.Task, *, name: str, trust_remote_code: bool) -> None:
    """Whether a model's files can be fine-tuned for a task; `name` is what messages call the model.

    Raises:
        ModelError: they can't; the message says why, and what to do.
    """
    config = load_config(folder, name=name, trust_remote_code=trust_remote_code)
    check_takes(config, task, name=name)
    tokenizer = load_tokenizer(folder, name=name, trust_remote_code=trust_remote_code)
    vocabulary = getattr(config.get_text_config(), "vocab_size", None)
    if vocabulary is not None and len(tokenizer) > vocabulary:
        raise ModelError(
            f"{name}: its tokenizer has {len(tokenizer):,} tokens, and the model has embeddings for {vocabulary:,} "
            "(config.json vocab_size); they are not of the same model"
        )


def load_config(folder: Path, *, name: str, trust_remote_code: bool) -> Any:
    """A model's config, of a type that transformers knows.

    Raises:
        ModelError: config.json is not readable, or of an unknown type, or asks for code that is not trusted.
    """
    import transformers

    known = transformers.CONFIG_MAPPING
    raw = read_json(folder / "config.json", name=name)
    _check_code(raw, folder, name=name, trust_remote_code=trust_remote_code)
    model_type = raw.get("model_type")
    if model_type is None:
        raise ModelError(f"{name}: config.json has no model_type; add the one of its architecture, bert for example")
    if model_type not in known and "AutoConfig" not in raw.get("auto_map", {}):
        raise ModelError(
            f"{name}: config.json says model_type {model_type}, which transformers {transformers.__version__} does not "
            f"know{lookup.nearest(model_type, known)}; take a model of a known type, or one that brings its code"
        )
    try:
        return transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # each architecture validates its config in its own way
        raise ModelError(f"{name}: config.json is not one of a {model_type}: {_brief(error)}; get it again") from error


def check_takes(config: Any, task: tasks.Task, *, name: str) -> None:
    """Whether transformers has a head of the task's kind for models of that type.

    Raises:
        ModelError: it has none.
    """
    import transformers

    if task.AUTO_MODEL in getattr(config, "auto_map", {}):
        return
    if type(config) not in getattr(transformers, task.AUTO_MODEL)._model_mapping:
        raise ModelError(
            f"{name}: transformers has no {task.AUTO_MODEL} for model_type {config.model_type}, which task.type asks "
            "for; take a model of another type, bert or roberta for example, or another task"
        )


def load_tokenizer(folder: Path, *, name: str, trust_remote_code: bool = False) -> Any:
    """A model's tokenizer, which can pad a batch.

    Raises:
        ModelError: it is missing, does not load, or has no pad token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trust_remote_code)
    except Exception as error:  # OSError, ValueError, ImportError, the Rust library's own: all say that it won't load
        raise ModelError(
            f"{name}: its tokenizer does not load: {_brief(error)}; get tokenizer.json and tokenizer_config.json again"
        ) from error
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        # Without its files, transformers makes a tokenizer that knows the special tokens alone.
        raise ModelError(f"{name}: its tokenizer knows no word; add tokenizer.json (or vocab.txt) to its files")
    if tokenizer.pad_token_id is None:
        raise ModelError(
            f"{name}: its tokenizer has no pad token, and batches are padded; in a copy of the model, set pad_token in "
            f"tokenizer_config.json (to its eos_token{_quoted(tokenizer.eos_token)}, say) and pad_token_id in "
            "config.json to that token's id, then set model.name and model.sha256 to the copy's"
        )
    return tokenizer


def longest_input(
    config: Any, tokenizer: Any, *, trust_remote_code: bool, at_least: int | None = None
) -> tuple[int | None, str]:
    """The most tokens that the model takes (None: any number), and where that number stands.

    To be told only whether it takes `at_least` so many, which mostly needs no look at its architecture, is quicker:
    the number is then exact where it is smaller.
    """
    limits: dict[str, int] = {}
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and positions > 0:
        certain = at_least is not None and at_least + (getattr(config, "pad_token_id", None) or 0) < positions
        unused = 0 if certain else _unused_positions(config, trust_remote_code=trust_remote_code)
        note = f", of which {unused} are padding's" if unused else ""
        limits[f"max_position_embeddings {positions} in config.json{note}"] = positions - unused
    if tokenizer.model_max_length < _SANE_LENGTH:
        limits[f"model_max_length {tokenizer.model_max_length} in tokenizer_config.json"] = tokenizer.model_max_length
    if not limits:
        return None, ""
    where = min(limits, key=lambda place: limits[place])
    return limits[where], where


def check_max_length(
    max_length: int, config: Any, tokenizer: Any, task: tasks.Task, *, trust_remote_code: bool
) -> None:
    """Whether rows of that many tokens have a place in the model, and their words one beside the special tokens.

    Raises:
        UserError: they have not.
    """
    longest, where = longest_input(config, tokenizer, trust_remote_code=trust_remote_code, at_least=max_length)
    if longest is not None and max_length > longest:
        raise UserError(
            f"encode.max_length: {max_length} is more than the {longest} tokens that the model takes ({where}); set it "
            f"to {longest} or less, or take a model for longer texts"
        )
    special = tokenizer.num_special_tokens_to_add(pair=len(task.TEXT_COLUMNS) > 1)
    if max_length <= special:
        raise UserError(
            f"encode.max_length: {max_length} has no room for words beside {special} special tokens; raise it"
        )


def _unused_positions(config: Any, *, trust_remote_code: bool) -> int:
    """How many position embeddings no token can have: RoBERTa and its kin count on from the padding's own index."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):  # the architecture without its weights
        model = AutoModel.from_config(config, trust_remote_code=trust_remote_code)
    for place, module in model.named_modules():
        if place.endswith("embeddings.position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx) + 1
    return 0


def takes_token_types(config: Any, task: tasks.Task) -> bool:
    """Whether the model's forward function takes token_type_ids: some tokenizers make them for models that don't."""
    import transformers

    models = getattr(transformers, task.AUTO_MODEL)._model_mapping
    if hasattr(type(config), "type_vocab_size") or type(config) not in models:  # the latter: code of its own
        return True
    return "token_type_ids" in inspect.signature(models[type(config)].forward).parameters


def _check_code(raw: dict[str, Any], folder: Path, *, name: str, trust_remote_code: bool) -> None:
    """A model that asks for code of its own gets it only where that is trusted, and only from its own files."""
    tokenizer = folder / "tokenizer_config.json"
    maps = [raw.get("auto_map")] + ([read_json(tokenizer, name=name).get("auto_map")] if tokenizer.is_file() else [])
    classes = [value for auto_map in maps if auto_map for value in _flat(auto_map)]
    if classes and not trust_remote_code:
        raise ModelError(
            f"{name}: its config asks for Python code of its own ({', '.join(classes)}); read that code, and set "
            "model.trust_remote_code to true if it may run"
        )
    elsewhere = [value for value in classes if "--" in value]
    if elsewhere:
        raise ModelError(
            f"{name}: its code lies in another repository ({', '.join(elsewhere)}), and nothing is read from the Hub "
            "after this stage; make a copy of the model with that code beside config.json"
        )


def _flat(auto_map: Any) -> list[str]:
    """The class references of an auto_map, whose values are names, lists of names, or null."""
    values = list(auto_map.values()) if isinstance(auto_map, dict) else list(auto_map)
    return [name for value in values for name in (value if isinstance(value, list) else [value]) if name]


def read_json(file: Path, *, name: str) -> dict[str, Any]:
    """The object in one of a model's JSON files.

    Raises:
        ModelError: there is none in it.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{name}: {file.name} is not readable as JSON: {error}; get it again") from None
    if not isinstance(value, dict):
        raise ModelError(f"{name}: {file.name} holds no JSON object; get it again")
    return value


def _quoted(token: str | None) -> str:
    return f" {token!r}" if token else ""


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
