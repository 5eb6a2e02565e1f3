"""A folder of a model's files -> those that a base model is made of, and whether its weights can be trusted."""

import hashlib
import json
from fnmatch import fnmatch
from pathlib import Path

from stages.errors import ModelError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*.json",
    "vocab*.txt",
    "vocab.bpe",
    "merges.txt",
    "bpe.codes",
    "*.model",
    "*.tiktoken",
    "chat_template.jinja",
)
BESIDE_WEIGHTS = (CONFIG, "generation_config.json", *TOKENIZER)
PATTERNS = (*BESIDE_WEIGHTS, WEIGHTS, INDEX, "model-*-of-*.safetensors")
"""What from_pretrained reads, all of it at the top of the folder: no other weights, no pickles, no README."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_OTHER_FRAMEWORKS = (".h5", ".msgpack", ".ot")
_LFS_POINTER = b"version https://git-lfs"


def sha256(file: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def beside_weights(folder: Path, *, code: bool) -> list[Path]:
    """The files to take beside the weights; with `code`, the Python files too."""
    patterns = (*BESIDE_WEIGHTS, "*.py") if code else BESIDE_WEIGHTS
    files = [file for file in folder.iterdir() if file.is_file()]
    return [file for file in files if any(fnmatch(file.name, pattern) for pattern in patterns)]


def weights(folder: Path, *, name: str, listed: list[str]) -> list[Path]:
    """The weights' files: model.safetensors, or the shards and then their index.

    `listed` is all that there is where the folder comes from: what it has instead of safetensors is for the message.

    Raises:
        ModelError: there are none, or they are not whole.
    """
    if (folder / WEIGHTS).is_file():
        found = [folder / WEIGHTS]
    elif (folder / INDEX).is_file():
        found = [*_shards(folder, name=name), folder / INDEX]
    else:
        raise ModelError(f"{name}: no {WEIGHTS} in it; {_instead(name, listed)}")
    for file in found:
        if file.name != INDEX:
            _check_readable(file, name=name)
    return found


def weights_digest(files: list[Path]) -> str:
    """What model.sha256 is compared with.

    Of a single file its sha256, as `sha256sum model.safetensors` prints it; of shards the sha256 of the list of theirs,
    as `sha256sum model-*.safetensors model.safetensors.index.json | sha256sum` prints it.
    """
    if len(files) == 1:
        return sha256(files[0])
    lines = [f"{sha256(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _shards(folder: Path, *, name: str) -> list[Path]:
    try:
        names = sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{name}: {INDEX} has no weight_map that can be read; get that file again") from None
    missing = [shard for shard in names if not (folder / shard).is_file()]
    if missing or not names:
        raise ModelError(f"{name}: {INDEX} names {', '.join(missing) or 'no file'}, which is not there; get it again")
    return [folder / shard for shard in names]


def _check_readable(file: Path, *, name: str) -> None:
    """Every tensor that the header announces is in the file (safetensors checks that when it opens one)."""
    from safetensors import SafetensorError, safe_open

    with file.open("rb") as stream:
        start = stream.read(len(_LFS_POINTER))
    if start == _LFS_POINTER:
        raise ModelError(
            f"{name}: {file.name} is a Git LFS pointer, not the weights; run `git lfs pull` in that folder"
        )
    try:
        with safe_open(file, framework="numpy") as tensors:
            count = len(tensors.keys())
    except SafetensorError as error:
        raise ModelError(
            f"{name}: {file.name} ({file.stat().st_size:,} bytes) is no whole safetensors file: {error}; get it again"
        ) from None
    if not count:
        raise ModelError(f"{name}: {file.name} holds no tensor; get a file with the model's weights")


def _instead(name: str, listed: list[str]) -> str:
    """What to do, by what there is in place of safetensors."""
    pickled = [file for file in listed if Path(file).suffix in _PICKLED]
    if any(fnmatch(file, "pytorch_model*.bin") for file in pickled):
        own = f"models/{Path(name).name}-safetensors"
        autos = ("AutoModel", "AutoTokenizer")
        convert = "; ".join(f"t.{auto}.from_pretrained('{name}').save_pretrained('{own}')" for auto in autos)
        return (
            f"its weights are pickled ({', '.join(pickled)}), and a pickle can run code when it is loaded: convert "
            f'them once, if you trust their source, with\n  python -c "import transformers as t; {convert}"\n'
            f"and set model.name to {own}"
        )
    if pickled:
        return f"{', '.join(pickled)} may be pickles, which are not read; look for a copy with safetensors"
    other = [file for file in listed if Path(file).suffix in _OTHER_FRAMEWORKS]
    if other:
        return f"{', '.join(other)} is of a framework that transformers 5 can't read; look for a copy with safetensors"
    return f"it has {', '.join(sorted(listed)[:10]) or 'no file'}; get the model's safetensors"
