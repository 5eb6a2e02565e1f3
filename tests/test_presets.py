from pathlib import Path

import pytest

from scripts import presets
from stages.params import load_params

ROOT = Path(__file__).parents[1]
PARAMS = (ROOT / "params.yaml").read_text(encoding="utf-8")
FOUND = sorted(path.stem for path in (ROOT / "presets").glob("*.yaml"))


def test_the_folder_holds_the_presets_that_the_script_makes():
    assert sorted(presets.PRESETS) == FOUND
    assert len(FOUND) >= 5


@pytest.mark.parametrize("name", FOUND)
def test_a_preset_is_what_params_yaml_and_its_own_knobs_make(name):
    text = (ROOT / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text == presets.render(name, presets.PRESETS[name], PARAMS), "params.yaml has changed: run make presets"


@pytest.mark.parametrize("name", FOUND)
def test_a_preset_describes_a_run(name):
    assert load_params(ROOT / "presets" / f"{name}.yaml")


@pytest.mark.parametrize("name", FOUND)
def test_a_preset_begins_with_the_licence_the_place_of_the_data_and_the_command(name):
    lines = (ROOT / "presets" / f"{name}.yaml").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert all(line.startswith("# ") for line in lines)
    assert any(line.startswith("# Licence of the data: ") for line in lines)
    assert any(line.startswith("# The data: ") and "data/raw/" in line for line in lines)
    assert f"# The run: cp presets/{name}.yaml params.yaml && dvc repro" in lines


def test_a_preset_keeps_the_comments_and_every_knob_it_does_not_name():
    text = presets.render("paraphrases", presets.PRESETS["paraphrases"], PARAMS)
    kept = [line for line in PARAMS.splitlines()[2:] if line in text.splitlines()]
    assert len(kept) > 70
    assert "  max_length: 128               # tokens; longer rows are truncated" in kept


def test_a_knob_that_params_yaml_does_not_have_is_named():
    stale = presets.Preset(about="stale", knobs="train.warmup_ratio: 0.1\n")
    with pytest.raises(KeyError, match=r"train\.warmup_ratio"):
        presets.render("stale", stale, PARAMS)
