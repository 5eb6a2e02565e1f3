"""Knobs that a run sets otherwise (train.learning_rate=3e-5) -> params.yaml, all else in it as it was."""

import copy
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node
from ruamel.yaml.representer import RepresenterError

from stages import outputs, params_file
from stages.errors import MachineError, ParamsError
from stages.params import load_params

PARAMS = "params.yaml"
"""The file that holds all knobs, in a checkout."""

_TAG = "tag:yaml.org,2002:"


def parse_override(text: str) -> tuple[str, Any]:
    """The place and the value of train.learning_rate=3e-5; the value is read as YAML 1.2, as params.yaml is.

    Raises:
        ParamsError: it has no place or no value, or the value is no YAML.
    """
    place, equals, value = text.partition("=")
    place = place.strip()
    if not (equals and place and value.strip()):
        raise ParamsError(
            f"{text}: to set a knob, write its place and value: train.learning_rate=3e-5, data.labels=null"
        )
    try:
        return place, YAML(typ="safe").load(value)
    except (YAMLError, ValueError) as error:
        raise ParamsError(f"{place}: {value!r} is not readable as YAML ({str(error).splitlines()[0]})") from None


def set_params(checkout: Path, overrides: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Write overrides, dotted place -> value, into params.yaml; what it held there and holds now, where they differ.

    The new file is checked as a whole before it takes the place of the old one; nothing but the values changes in it.

    Raises:
        ParamsError: a place that there is not, or values that describe no run; params.yaml is as it was.
        MachineError: it can't be written.
    """
    path = (checkout / PARAMS).resolve()
    before = params_file.read(path)
    # Not read as text: the ends of its lines stay as they are.
    text = path.read_bytes().decode()
    made = with_overrides(text, overrides)
    if made == text:
        return {}
    try:
        with outputs.file(path) as partial:
            partial.write_bytes(made.encode())
            partial.chmod(path.stat().st_mode)
            try:
                load_params(partial)
            except ParamsError as error:
                raise ParamsError(str(error).replace(str(partial), PARAMS)) from None
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}; see to its permissions and the disk, and run again") from None
    after = params_file.read(path)
    changes = {place: (_at(before, place), _at(after, place)) for place in overrides}
    return {place: change for place, change in changes.items() if not _equal(*change)}


def with_overrides(text: str, overrides: Mapping[str, Any]) -> str:
    """The text of a params.yaml, and overrides -> its text with them.

    Raises:
        ParamsError: a place lies in what is no section; the text is written such that a value can't be replaced.
    """
    for place, value in overrides.items():
        text = _with_value(text, place, _plain(value))
    return text


def _with_value(text: str, place: str, value: Any) -> str:
    tree = YAML(typ="safe").load(text)
    wanted = copy.deepcopy(tree)
    *sections, knob = place.split(".")
    section, node = wanted, YAML().compose(text)
    for name in sections:
        section, node = _below(section, name), _child(node, name)
        if not isinstance(section, dict):
            raise ParamsError(f"{place}: {PARAMS} has no section {name} there; set the whole of what holds it instead")
    if knob in section and _equal(section[knob], value):
        return text
    try:
        made = _replaced(text, node, knob, value, section)
    except RepresenterError:
        raise ParamsError(f"{place}: a {type(value).__name__} can't be written as YAML") from None
    section[knob] = value
    try:
        is_right = _equal(YAML(typ="safe").load(made), wanted)
    except YAMLError:
        is_right = False
    if not is_right:
        raise ParamsError(f"{place}: can't be set in {PARAMS} as it is written (an anchor, a tag?); edit it by hand")
    return made


def _below(tree: Any, name: str) -> Any:
    return tree.get(name) if isinstance(tree, dict) else None


def _child(node: Node | None, name: str) -> Node | None:
    pairs = node.value if isinstance(node, MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _replaced(text: str, section: Node | None, knob: str, value: Any, held: dict[str, Any]) -> str:
    """The text with another value of a knob in its section, which holds `held`, or with one more knob."""
    assert isinstance(section, MappingNode)
    old = _child(section, knob)
    written = _written(value)
    if old is None and section.flow_style:
        old, written = section, _written({**held, knob: value})
    if old is None:
        return _inserted(text, section, f"{knob}: {written}")
    start, end = old.start_mark.index, _end(text, old)
    if start == end:  # an empty value, right behind its colon
        written = f" {written}"
    return text[:start] + written + _aligned(text[end:], len(written) - (end - start))


def _end(text: str, node: Node) -> int:
    """Where a value ends: ruamel.yaml counts comments and line ends behind a block to it."""
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        start, end = int(node.start_mark.index), node.end_mark.index
        return start + len(text[start:end].rstrip())
    last = node.value[-1]
    return _end(text, last[1] if isinstance(last, tuple) else last)


def _inserted(text: str, section: MappingNode, line: str) -> str:
    """The text with one more line at the end of a section that is written as a block."""
    indent = " " * section.value[0][0].start_mark.column
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = text[: (end := _end(text, section))], text[end:]
    rest, ends, below = after.partition(newline)
    return f"{before}{rest}{newline}{indent}{line}{ends}{below}"


def _aligned(rest: str, longer: int) -> str:
    """What follows a value, its comment moved back to where it stood, if there is room."""
    blanks = len(rest) - len(rest.lstrip(" "))
    if blanks == 0 or rest[blanks : blanks + 1] != "#":
        return rest
    return " " * max(blanks - longer, 2) + rest[blanks:]


def _written(value: Any) -> str:
    """A value on one line, as YAML that can stand anywhere."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.allow_unicode, yaml.width = True, True, 1 << 20
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    represent = yaml.representer
    represent.add_representer(float, lambda of, one: of.represent_scalar(f"{_TAG}float", _float(one)))
    represent.add_representer(type(None), lambda of, _: of.represent_scalar(f"{_TAG}null", "null"))
    stream = io.StringIO()
    # In a mapping: within braces a text that holds a comma gets its quotes.
    yaml.dump({"": value}, stream)
    return stream.getvalue().strip().removeprefix("{'': ").removesuffix("}")


def _float(value: float) -> str:
    """A number such that every reader of YAML takes it for one: 3.0e-5, since 1.1 takes 3e-5 for a text."""
    if not math.isfinite(value):
        return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
    mantissa, e, exponent = repr(value).partition("e")
    if e and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent):+d}" if e else mantissa


def _plain(value: Any) -> Any:
    """A value of the types that YAML has, whatever subclass of them it came as."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return next((kind(value) for kind in (bool, int, float, str) if isinstance(value, kind)), value)


def _at(tree: Any, place: str) -> Any:
    for name in place.split("."):
        tree = _below(tree, name)
    return tree


def _equal(a: Any, b: Any) -> bool:
    """Whether two values are the same, and of the same type: 3 is not 3.0 to a knob."""
    return repr(a) == repr(b)
