import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from stages import lookup, metrics
from stages.errors import GateError, ParamsError
from stages.tasks import regression, single_label
from tests.tiny import ROOT

CLASS_METRICS = single_label.METRICS
NUMBER_METRICS = regression.METRICS
MACRO_LIKE = [
    f"{kind}_{average}" for kind in ("precision", "recall", "f1") for average in ("macro", "micro", "weighted")
]

# Six rows of three classes, and what was predicted of them. Right: 4 of 6.
# class 0: 2 rows, 2 predicted, 1 right; class 1: 2 rows, 3 predicted, 2 right; class 2: 2 rows, 1 predicted, 1 right
ACTUAL = np.array([0, 0, 1, 1, 2, 2])
PREDICTED = np.array([0, 1, 1, 1, 2, 0])
BINARY_ACTUAL = np.array([0, 0, 0, 1, 1, 1])
BINARY_PREDICTED = np.array([0, 0, 1, 1, 1, 1])
CERTAINTY = np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.7, 0.3]])


def score(name, predictions, references):
    metric = lookup.find(metrics, name)
    return metric.score(np.asarray(predictions), np.asarray(references))


def decoded_of(probabilities):
    return {"predictions": probabilities.argmax(axis=1), "probabilities": probabilities}


@st.composite
def classified(draw):
    """Probabilities (rows, classes), often tied, and labels; some classes occur nowhere."""
    classes = draw(st.integers(2, 5))
    rows = draw(st.integers(1, 30))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    weights = draw(
        st.lists(st.lists(st.integers(0, 4), min_size=classes, max_size=classes), min_size=rows, max_size=rows)
    )
    raw = np.array(weights, dtype=np.float64) + 1e-3
    return raw / raw.sum(axis=1, keepdims=True), np.array(labels)


numbers = st.lists(
    st.tuples(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32)), min_size=1, max_size=30
).map(lambda pairs: np.array(pairs, dtype=np.float64))


def test_every_metric_of_every_task_has_a_file_and_every_file_is_a_metric():
    assert len(CLASS_METRICS) + len(NUMBER_METRICS) == 21
    assert sorted((*CLASS_METRICS, *NUMBER_METRICS)) == lookup.names(metrics)
    for name in lookup.names(metrics):
        metric = lookup.find(metrics, name)
        assert isinstance(metric.greater_is_better, bool)
        assert metric.needs in ("predictions", "probabilities")
        assert metric.num_labels in (None, 0, 2)


def test_lower_is_better_exactly_for_losses_and_errors():
    lower = {name for name in lookup.names(metrics) if not lookup.find(metrics, name).greater_is_better}
    assert lower == {"log_loss", "expected_calibration_error", "mse", "mae"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 4 / 6),
        ("precision_macro", (1 / 2 + 2 / 3 + 1) / 3),
        ("recall_macro", (1 / 2 + 1 + 1 / 2) / 3),
        ("f1_macro", (1 / 2 + 4 / 5 + 2 / 3) / 3),
        ("precision_micro", 4 / 6),
        ("recall_micro", 4 / 6),
        ("f1_micro", 4 / 6),
        ("precision_weighted", (2 * 1 / 2 + 2 * 2 / 3 + 2 * 1) / 6),
        ("recall_weighted", 4 / 6),
        ("f1_weighted", (1 / 2 + 4 / 5 + 2 / 3) / 3),
        # (4 * 6 - (2*2 + 3*2 + 1*2)) / sqrt((36 - 14) * (36 - 12))
        ("matthews_correlation", 12 / math.sqrt(22 * 24)),
    ],
)
def test_worked_values_of_three_classes(name, expected):
    assert score(name, PREDICTED, ACTUAL) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "expected"), [("precision_binary", 3 / 4), ("recall_binary", 1.0), ("f1_binary", 6 / 7)]
)
def test_the_positive_class_of_the_binary_metrics_is_label_id_1(name, expected):
    assert score(name, BINARY_PREDICTED, BINARY_ACTUAL) == pytest.approx(expected, abs=1e-15)


def test_worked_values_of_probabilities():
    labels = np.array([0, 1, 1, 0])
    assert score("log_loss", CERTAINTY, labels) == pytest.approx(
        -(math.log(0.9) + math.log(0.4) + math.log(0.6) + math.log(0.7)) / 4
    )
    # the rows of class 1 have 0.4 and 0.6, those of class 0 have 0.1 and 0.3: every pair is in order
    assert score("roc_auc", CERTAINTY, labels) == 1.0
    # and with 0.4 against 0.1 and 0.6 for label 1 at 0.3: of 3 pairs one is in order, one is not, one is tied
    tied = np.array([[0.7, 0.3], [0.9, 0.1], [0.7, 0.3], [0.4, 0.6]])
    assert score("roc_auc", tied, np.array([1, 0, 0, 0])) == pytest.approx((1 + 0.5 + 0) / 3)


def test_worked_value_of_the_calibration_error():
    # confidences .9 (right), .6 (wrong), .6 (right), .7 (right), in bins (13/15, 14/15], (8/15, 9/15], (10/15, 11/15]
    labels = np.array([0, 1, 1, 0])
    assert score("expected_calibration_error", CERTAINTY, labels) == pytest.approx(
        1 / 4 * 0.1 + 2 / 4 * abs(0.5 - 0.6) + 1 / 4 * 0.3
    )


def test_a_calibration_bin_holds_its_upper_edge():
    # 0.6 = 9/15 and 0.55 share a bin, so their gaps cancel; were 0.6 in the next one, they would add up
    probabilities = np.array([[0.6, 0.4], [0.55, 0.45]])
    assert score("expected_calibration_error", probabilities, [0, 1]) == pytest.approx(abs(1 - 0.6 - 0.55) / 2)


def test_worked_values_of_numbers():
    predictions, references = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    assert score("mse", predictions, references) == pytest.approx((0 + 1 + 4) / 3)
    assert score("mae", predictions, references) == pytest.approx((0 + 1 + 2) / 3)
    # deviations from the means 7/3 and 2: (-4/3)(-1) + (-1/3)(1) + (5/3)(0) = 1; squares 42/9 and 2
    assert score("pearson", predictions, references) == pytest.approx(1 / math.sqrt(42 / 9 * 2))
    assert score("spearman", predictions, references) == pytest.approx(0.5)  # ranks 1 2 3 and 1 3 2


@settings(max_examples=60, deadline=None)
@given(classified())
def test_class_metrics_agree_with_scikit_learn(rows):
    probabilities, labels = rows
    predictions = probabilities.argmax(axis=1)
    for name in MACRO_LIKE:
        kind, _, average = name.partition("_")
        reference = getattr(sklearn_metrics, f"{kind}_score")
        expected = reference(labels, predictions, average=average, zero_division=0)
        assert score(name, predictions, labels) == pytest.approx(expected, abs=1e-12), name
    assert score("accuracy", predictions, labels) == pytest.approx(sklearn_metrics.accuracy_score(labels, predictions))
    assert score("matthews_correlation", predictions, labels) == pytest.approx(
        sklearn_metrics.matthews_corrcoef(labels, predictions), abs=1e-12
    )
    assert score("log_loss", probabilities, labels) == pytest.approx(
        sklearn_metrics.log_loss(labels, probabilities, labels=np.arange(probabilities.shape[1]))
    )
    two_sided = [c for c in range(probabilities.shape[1]) if 0 < (labels == c).sum() < len(labels)]
    if probabilities.shape[1] == 2:
        two_sided = [c for c in two_sided if c == 1]
    areas = [sklearn_metrics.roc_auc_score(labels == c, probabilities[:, c]) for c in two_sided]
    assert score("roc_auc", probabilities, labels) == pytest.approx(np.mean(areas) if areas else 0.5)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=20))
def test_binary_metrics_agree_with_scikit_learn(pairs):
    predictions, labels = np.array(pairs).T
    for kind in ("precision", "recall", "f1"):
        expected = getattr(sklearn_metrics, f"{kind}_score")(labels, predictions, pos_label=1, zero_division=0)
        assert score(f"{kind}_binary", predictions, labels) == pytest.approx(expected, abs=1e-12)


def test_roc_auc_of_many_classes_is_scikit_learns_where_every_class_has_rows():
    random = np.random.default_rng(0)
    labels = np.concatenate([np.arange(7), random.integers(0, 7, 300)])
    probabilities = random.dirichlet(np.ones(7), len(labels))
    expected = sklearn_metrics.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
    assert score("roc_auc", probabilities, labels) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(numbers)
def test_number_metrics_agree_with_scipy_and_scikit_learn(pairs):
    predictions, references = pairs.T
    assert score("mse", predictions, references) == pytest.approx(np.square(predictions - references).mean())
    assert score("mae", predictions, references) == pytest.approx(np.abs(predictions - references).mean())
    if len(set(predictions)) > 1 and len(set(references)) > 1:
        expected = stats.spearmanr(predictions, references).statistic
        assert score("spearman", predictions, references) == pytest.approx(expected, abs=1e-12)


def test_pearson_agrees_with_numpy():
    random = np.random.default_rng(1)
    predictions = random.normal(size=200)
    references = predictions + random.normal(size=200)
    assert score("pearson", predictions, references) == pytest.approx(np.corrcoef(predictions, references)[0, 1])


@settings(max_examples=200, deadline=None)
@given(classified())
def test_class_metrics_are_plain_finite_floats_without_a_warning_whatever_is_in_the_rows(rows):
    probabilities, labels = rows
    decoded = decoded_of(probabilities)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in metrics.available(CLASS_METRICS, probabilities.shape[1]):
            value = score(name, decoded[lookup.find(metrics, name).needs], labels)
            assert type(value) is float
            assert math.isfinite(value)
            assert json.loads(json.dumps(value, allow_nan=False)) == value


@settings(max_examples=200, deadline=None)
@given(numbers)
def test_number_metrics_are_plain_finite_floats_without_a_warning_whatever_is_in_the_rows(pairs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in NUMBER_METRICS:
            value = score(name, *pairs.T)
            assert type(value) is float
            assert math.isfinite(value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # two of the three classes occur (the one absent counts for nothing): F1 is 2/3 of class 0 and 0 of class 2
        ("f1_macro", (2 / 3 + 0) / 2),
        ("precision_macro", (1 / 2 + 0) / 2),
        ("recall_macro", (1 + 0) / 2),
        ("f1_weighted", 1 / 3),
        ("matthews_correlation", 0.0),
    ],
)
def test_a_class_absent_from_predictions_and_labels_is_left_out_of_an_average(name, expected):
    assert score(name, [0, 0], [0, 2]) == pytest.approx(expected)


def test_a_single_class_has_stated_values():
    ones = np.ones(4, dtype=np.int64)
    even = np.full((4, 2), 0.5)
    assert score("f1_macro", ones, ones) == 1.0
    assert score("f1_binary", 0 * ones, 0 * ones) == 0.0
    assert score("matthews_correlation", ones, ones) == 0.0
    assert score("roc_auc", even, ones) == 0.5
    assert score("log_loss", even, ones) == pytest.approx(math.log(2))


def test_a_certain_mistake_costs_a_finite_log_loss():
    assert score("log_loss", np.array([[1.0, 0.0]]), [1]) == pytest.approx(-math.log(np.finfo(np.float64).eps))


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize("constant", [[2.5, 2.5, 2.5], [0.1, 0.1, 0.1]])
def test_the_correlation_of_a_constant_is_zero(name, constant):
    assert score(name, constant, [1.0, 2.0, 3.0]) == 0.0
    assert score(name, [1.0, 2.0, 3.0], constant) == 0.0
    assert score(name, [1.0], [1.0]) == 0.0


def test_only_metrics_defined_for_that_number_of_classes_are_available():
    assert "f1_binary" in metrics.available(CLASS_METRICS, 2)
    assert set(metrics.available(CLASS_METRICS, 2)) - set(metrics.available(CLASS_METRICS, 3)) == {
        "f1_binary",
        "precision_binary",
        "recall_binary",
    }
    assert metrics.available(NUMBER_METRICS, 0) == list(NUMBER_METRICS)


def test_outputs_that_are_not_finite_are_refused_with_the_first_row():
    probabilities = np.array([[0.5, 0.5], [np.nan, np.nan], [np.nan, np.nan]])
    with pytest.raises(GateError, match=r"2 of 3 rows \(the first: row 1 of the split\)"):
        metrics.score("accuracy", decoded_of(probabilities), np.array([0, 1, 1]))


def test_an_unknown_metric_is_refused_with_those_there_are():
    with pytest.raises(
        ParamsError, match=r"no stages/metrics/f1_marco\.py; there are accuracy, .*did you mean f1_macro\?"
    ):
        metrics.score("f1_marco", {}, np.array([0]))
    with pytest.raises(ParamsError, match="no stages/metrics/hub:accuracy"):
        metrics.score("hub:accuracy", {}, np.array([0]))


EVALUATE = """
import json, multiprocessing, socket
def refuse(*arguments):
    raise AssertionError(f"a socket was opened: {arguments[1:]}")
socket.socket.connect = socket.socket.connect_ex = refuse
import numpy as np
from stages import lookup, metrics
from stages.tasks import regression, single_label

def scores(together):
    random = np.random.default_rng(7)
    labels, probabilities = random.integers(0, 3, 60), random.dirichlet(np.ones(3), 60)
    classes = {"predictions": probabilities.argmax(axis=1), "probabilities": probabilities}
    targets, numbers = random.normal(size=60), {"predictions": random.normal(size=60)}
    made = {}
    for task, decoded, references in ((single_label, classes, labels), (regression, numbers, targets)):
        for name in task.METRICS:
            together.wait(timeout=60)
            metric = metrics.as_evaluate(name)
            scored = decoded[lookup.find(metrics, name).needs]
            for start in range(0, 60, 25):
                metric.add_batch(predictions=scored[start:start + 25], references=references[start:start + 25])
            made[name] = metric.compute()[name]
            assert made[name] == metrics.score(name, decoded, references), name
    print(json.dumps(made, allow_nan=False), flush=True)

fork = multiprocessing.get_context("fork")  # evaluate takes seconds to import: once is enough
metrics.as_evaluate("accuracy")
together = fork.Barrier(4)
processes = [fork.Process(target=scores, args=(together,)) for _ in range(4)]
for process in processes:
    process.start()
for process in processes:
    process.join()
assert [process.exitcode for process in processes] == [0] * 4
"""


@pytest.fixture(scope="module")
def four_evaluations(tmp_path_factory) -> tuple[list[str], Path]:
    """What four processes print that evaluate at once: offline, with one empty folder as HF_HOME, home and place."""
    home = tmp_path_factory.mktemp("hf_home")
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HF_HOME": str(home), "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", EVALUATE], env=environment, cwd=home, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), home


def test_four_processes_at_once_compute_the_same_numbers_through_evaluate_as_score_gives(four_evaluations):
    printed, _ = four_evaluations
    assert len(printed) == 4
    assert len(set(printed)) == 1
    assert set(json.loads(printed[0])) == {*CLASS_METRICS, *NUMBER_METRICS}


def test_evaluating_writes_nothing_into_an_empty_hf_home_and_opens_no_socket(four_evaluations):
    _, home = four_evaluations  # a socket would have failed the processes
    assert list(home.rglob("*")) == []
