from pipeline.commit_message import LONGEST_SUBJECT, Parts, compose, gather, subject

METRICS = {
    "test.accuracy": (0.90625, 0.9125),
    "test.f1_macro": (None, 0.9),
    "test.mcc": (0.5, 0.5),
    "test.auc": (0.5, None),
    "select_best.accuracy": (0.9, 0.8),
}


def test_all_parts_stand_in_blocks_of_their_own():
    parts = Parts(
        ran=["prepare", "train@13"],
        metrics=METRICS,
        params={"train.learning_rate": (1e-4, 3e-5)},
        data={"data/raw/rows.csv": ("a", "b")},
    )
    assert compose(parts) == (
        "Retrain: test accuracy 0.9125 (+0.0062), f1_macro 0.9000, mcc 0.5000\n"
        "\n"
        "Metrics:\n"
        "  test.accuracy         0.9062 -> 0.9125 (+0.0062)\n"
        "  test.f1_macro         0.9000 (new)\n"
        "  test.mcc              0.5000 (unchanged)\n"
        "  test.auc              0.5000 -> none\n"
        "  select_best.accuracy  0.9000 -> 0.8000 (-0.1000)\n"
        "\n"
        "Params:\n"
        "  train.learning_rate: 0.0001 -> 3e-05\n"
        "\n"
        "Data:\n"
        "  data/raw/rows.csv: a -> b\n"
        "\n"
        "Ran: prepare, train@13\n"
    )


def test_a_first_run_does_not_list_every_knob_as_new(toy):
    toy.git("rm", "--quiet", "--cached", "dvc.lock")
    toy.git("commit", "--quiet", "--message", "As before the first run")
    parts = gather(toy.root, ["check"])
    assert parts.params == {}
    assert [pair[0] for pair in parts.data.values()] == [None]
    toy.git("reset", "--quiet", "--hard", "HEAD~1")
    toy.write("dvc.lock", toy.read("dvc.lock").replace("rate: 0.001", "rate: 0.002"))
    assert gather(toy.root).params == {"train.rate": (0.001, 0.002)}


def test_what_there_is_nothing_of_is_left_out():
    assert compose(Parts()) == "Retrain: no stage had to run\n"
    assert compose(Parts(ran=["check"])) == "Retrain\n\nRan: check\n"
    assert compose(Parts(data={"rows": ("a", "a")})).endswith("\n\nData:\n  rows: a (unchanged)\n")


def test_the_first_line_keeps_to_its_length_and_holds_a_metric():
    long = {f"test.{'a_metric_with_a_long_name'}_{number}": (0.1, 0.2) for number in range(5)}
    assert len(subject(Parts(metrics=long))) <= LONGEST_SUBJECT
    assert "a_metric_with_a_long_name_0 0.2000 (+0.1000)" in subject(Parts(metrics=long))
    assert subject(Parts(metrics={f"test.{'x' * 90}": (None, 1.0)})).endswith(" 1.0000")
