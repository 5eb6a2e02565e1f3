"""Write the two blocks of README.md that are made from dvc.yaml: the graph, as DVC draws it, and the table of stages.

Run it after a change of dvc.yaml: make readme
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages.check import filled, paths

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def graph() -> str:
    """The graph of the stages, in Mermaid's language."""
    command = [sys.executable, "-m", "dvc", "dag", "--mermaid"]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line.replace("\t", "    ").rstrip() for line in drawn.splitlines()]
    return "\n".join(["```mermaid", *filter(None, lines), "```"])


def stages() -> str:
    """A line for each stage: its name, what it does, what it writes, and the sections of params.yaml it depends on."""
    tree = YAML(typ="safe").load(ROOT / "dvc.yaml")
    values = {name: value for one in tree["vars"] for name, value in one.items()}
    lines = ["| stage | what | writes | knobs |", "|---|---|---|---|"]
    for name, stage in tree["stages"].items():
        made = [filled(path, values) for kind in ("outs", "metrics") for path in paths(stage.get(kind, []))]
        knobs = [knob for list_of in stage.get("matrix", {}).values() for knob in re.findall(r"\{(\w+)\}", list_of)]
        knobs += stage.get("params", [])
        shown = "all of `params.yaml`" if "params.yaml" in stage["deps"] else _code(knobs)
        lines.append(f"| `{name}` | {stage['desc']} | {_code(made)} | {shown} |")
    return "\n".join(lines)


def _code(names: list[Any]) -> str:
    return ", ".join(f"`{name}`" for name in names).replace("${item.seed}", "<seed>")


BLOCKS = {"graph": graph, "stages": stages}
"""Name of a block -> what makes its text."""


def block(name: str, text: str) -> str:
    """A block with the two comments around it by which it is found again."""
    return f"<!-- {name}: made from dvc.yaml by make readme -->\n{text}\n<!-- end of {name} -->"


def pattern(name: str) -> re.Pattern[str]:
    """Finds a block; its first group is the text."""
    return re.compile(rf"<!-- {name}: [^>]*-->\n(.*?)\n<!-- end of {name} -->", re.DOTALL)


def main() -> None:
    """Write README.md anew and say whether it changed.

    Raises:
        SystemExit: a block's comments are not in it.
    """
    before = text = README.read_text(encoding="utf-8")
    for name, make in BLOCKS.items():
        made = block(name, make())
        text, count = pattern(name).subn(lambda _, made=made: made, text)
        if count != 1:
            sys.exit(
                f"README.md: the block {name} stands in it {count} times; its first line is {made.splitlines()[0]}"
            )
    README.write_text(text, encoding="utf-8")
    print(f"README.md: {'as it was' if text == before else 'changed'}")


if __name__ == "__main__":
    main()
