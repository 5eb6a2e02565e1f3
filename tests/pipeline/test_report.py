from pipeline.report import Report, Result, metric_lines, table


def test_the_exit_code_is_that_of_the_first_stage_that_failed_and_says_whose_fault_it_was():
    report = Report(
        {
            "prepare": Result("ran", 1.5),
            "train@13": Result("failed", 2.0, code=4, message="no memory left"),
            "train@14": Result("failed", 2.0, code=2, message="a bad row"),
            "export": Result("not run"),
        }
    )
    assert report.exit_code == 4
    assert report.changed
    assert "train@13 failed (exit 4), the fault of the machine:\nno memory left" in report.why()
    assert "the fault of the input: params.yaml or the data:\na bad row" in report.why()


def test_a_run_that_changed_nothing_says_so():
    report = Report({"prepare": Result("unchanged")})
    assert (report.exit_code, report.changed, report.why()) == (0, False, "")


def test_the_table_has_a_line_for_each_stage():
    lines = table(Report({"train@13": Result("ran", 61.25), "check": Result("unchanged")}))
    assert [line.split() for line in lines] == [
        ["stage", "outcome", "seconds"],
        ["train@13", "ran", "61.2"],
        ["check", "unchanged", "0.0"],
    ]


def test_a_metric_is_shown_with_its_change_and_a_new_one_without():
    lines = metric_lines({"f1": (0.5, 0.75), "new": (None, 0.25), "gone": (0.5, None)})
    assert [line.split() for line in lines[1:]] == [
        ["f1", "0.5000", "0.7500", "+0.2500"],
        ["new", "-", "0.2500", "-"],
        ["gone", "0.5000", "-", "-"],
    ]
