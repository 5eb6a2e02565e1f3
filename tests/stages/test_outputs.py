import math

import pytest

from stages import outputs


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"

    def write_half():
        with outputs.folder(target) as partial:
            (partial / "a").write_text("half")
            raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        write_half()
    assert list(tmp_path.iterdir()) == []
    with outputs.folder(target) as partial:
        (partial / "a").write_text("whole")
        assert not target.exists()
    assert (target / "a").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_was_there_stays_until_the_new_is_whole(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(RuntimeError, match="half"), outputs.folder(target):
        raise RuntimeError("half")
    assert (target / "old").exists()
    with outputs.folder(target) as partial:
        (partial / "new").touch()
    assert [path.name for path in target.iterdir()] == ["new"]


def test_a_leftover_of_a_killed_run_is_not_mixed_in(tmp_path):
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial/leftover").touch()
    with outputs.folder(tmp_path / "out") as partial:
        (partial / "new").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]


def test_the_unfinished_lies_where_it_is_told_to(tmp_path):
    target = tmp_path / "seeds/13"
    with outputs.folder(target, staging=tmp_path) as partial:
        assert partial.parent == tmp_path
        assert not target.parent.exists()
    assert [path.name for path in target.parent.iterdir()] == ["13"]


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "scores.json"
    outputs.write_json(target, {"a": 1.0})
    with pytest.raises(ValueError, match="JSON"):
        outputs.write_json(target, {"a": math.nan})
    assert target.read_text() == '{\n  "a": 1.0\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]
