import pytest

from pipeline.lines import Lines


def said(*chunks: bytes, bar_seconds: float = 1000.0) -> list[str]:
    heard: list[str] = []
    lines = Lines(heard.append, bar_seconds=bar_seconds)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return heard


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"on", b"e\n\ntw", b"o"], ["one", "", "two"]),
        ([b"one\r\n\r\ntwo\r", b"\n"], ["one", "", "two"]),
        ([b"\xc3", b"\xa4\n\xff\n", b"\xc3"], ["ä", "\ufffd", "\ufffd"]),
        ([b"  indented \n"], ["  indented "]),
        ([b""], []),
    ],
)
def test_every_line_comes_as_it_was_written(chunks, lines):
    assert said(*chunks) == lines


def test_a_line_of_any_length_comes_whole():
    assert said(*[b"x" * 65536] * 100, b"y\n") == ["x" * 6553600 + "y"]


AS_TQDM_DOES = [f"\r{percent}%".encode() for percent in range(101)]
AS_GIT_DOES = [f"{percent}%\r".encode() for percent in range(101)]


@pytest.mark.parametrize("chunks", [AS_TQDM_DOES, AS_GIT_DOES])
@pytest.mark.parametrize(("end", "after"), [([], []), ([b"\n"], []), ([b"\nnext\n"], ["next"])])
def test_of_a_bar_the_first_state_and_the_last_are_said(chunks, end, after):
    assert said(*chunks, *end) == ["0%", "100%", *after]
    assert said(b"".join(chunks), *end)[-1 - len(after) :] == ["100%", *after]


def test_a_bar_that_is_wiped_out_has_its_last_state_said_before_the_next_line():
    assert said(*AS_TQDM_DOES, b"\r        \r", b"done\n") == ["0%", "100%", "done"]


def test_a_message_after_a_bar_takes_nothing_from_it():
    assert said(b"10%\r", b"20%\r", b"error: no disk\n") == ["10%", "20%", "error: no disk"]


def test_a_state_is_said_when_it_is_due_though_nothing_more_comes():
    heard: list[str] = []
    lines = Lines(heard.append, bar_seconds=0.0)
    for chunk in (b"\r1%", b"\r2%"):
        lines.feed(chunk)
    assert heard == ["1%", "2%"]
    lines.tick()
    assert heard == ["1%", "2%"]
    lines.feed(b"\n")
    assert heard == ["1%", "2%"]


def test_a_line_that_has_not_ended_is_no_state():
    heard: list[str] = []
    lines = Lines(heard.append, bar_seconds=0.0)
    lines.feed(b"half")
    lines.tick()
    assert heard == []
