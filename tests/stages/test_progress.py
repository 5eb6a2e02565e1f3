import logging

from stages import progress


def test_a_log_has_a_line_whenever_the_time_has_passed_with_how_far_it_is(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    clock = iter([0.0, 4.0, 10.0, 15.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: False, raising=False)
    with progress.shown("test", total=80, unit="rows") as tell:
        for _ in range(4):
            tell(16)
    assert caplog.messages == ["test: 32 of 80 rows, 15 s left", "test: 64 of 80 rows, 5 s left"]


def test_a_terminal_has_a_bar_and_no_line(monkeypatch, caplog, capsys):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with progress.shown("test", total=4, unit="rows") as tell:
        tell(4)
    assert "test:   0%" in capsys.readouterr().err
    assert caplog.messages == []
