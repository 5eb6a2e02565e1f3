import threading

import pytest

from pipeline.flows import slots
from stages.errors import StoppedError


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("REMINT_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("devices", "count", "shares"),
    [
        (["0", "1", "2", "3"], 2, [["0", "1"], ["2", "3"]]),
        (["0", "1", "2"], 2, [["0", "1"], ["2"]]),
        (["0"], 2, [["0"], []]),
        ([], 2, [[], []]),
    ],
)
def test_gpus_are_shared_out_and_none_is_given_twice(devices, count, shares):
    assert slots.share(devices, count) == shares


def test_each_slot_gets_gpus_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    go_on = threading.Event()
    with slots.taken("train", 2, go_on) as first, slots.taken("train", 2, go_on) as second:
        assert first == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "4,5"}
        assert second == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "6,7"}


def test_who_finds_no_slot_waits_until_one_is_free(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    order = []

    def second():
        with slots.taken("train", 1, threading.Event()):
            order.append("second")

    with slots.taken("train", 1, threading.Event()):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(timeout=1.5)
        assert waiting.is_alive()
        order.append("first")
    waiting.join(timeout=30)
    assert order == ["first", "second"]


def test_who_is_asked_to_stop_waits_no_longer():
    stop = threading.Event()
    with slots.taken("train", 1, threading.Event()):
        stop.set()
        with pytest.raises(StoppedError, match="nothing had begun"), slots.taken("train", 1, stop):
            pass


def test_dvc_yaml_says_which_stage_needs_a_slot(tmp_path):
    graph = "stages:\n  train:\n    matrix: {seed: [1]}\n    meta: {slot: train}\n    cmd: x\n  other:\n    cmd: y\n"
    (tmp_path / "dvc.yaml").write_text(graph)
    assert slots.slot_of(tmp_path, "train@1") == "train"
    assert slots.slot_of(tmp_path, "other") is None
