from pipeline.report import Report, Result, RunFailed, table
from stages.errors import ParamsError


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


def test_a_run_that_did_not_begin_has_its_code_and_its_message():
    report = Report.of_error(ParamsError("params.yaml has 1 mistake"))
    assert report.exit_code == 2
    assert "did not begin (exit 2), the fault of the input: params.yaml or the data:\nparams.yaml has" in report.why()
    assert str(RunFailed(report)) == report.why()
