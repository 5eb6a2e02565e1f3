import shutil
import threading

import pytest

from pipeline import dvc_cli, dvc_command, recorded, remote
from stages.errors import DataError, MachineError, StoppedError, UserError
from tests.toy_project import rerun

ALL = [
    "code",
    "data/fetched",
    "data/rows.csv",
    "models/best",
    "models/checkpoints/13",
    "models/checkpoints/14",
    "models/scores/13.json",
    "models/scores/14.json",
    "models/selection.json",
]


def quiet(line):
    """Says nothing."""


def brought(toy, **options):
    """The stages that are to be run after what they need was pulled, and those of them that then ran."""
    stages = remote.bring(toy.root, say=quiet, **options)
    said = toy.dvc("repro", "--single-item", *stages) if stages else ""
    return stages, [line.split("'")[1] for line in said.splitlines() if line.startswith("Running stage")]


def clean(toy):
    return not dvc_command.unclean(dvc_cli.look(toy.root))


def arrive(toy, rows):
    """New rows come in, and their digest with them."""
    toy.write("data/rows.csv", rows)
    toy.dvc("commit", "--quiet", "--force", "data/rows.csv.dvc")


def recode(toy):
    """Another code of the first stage, which all others that run on data depend on."""
    toy.write("work.py", toy.read("work.py") + "\n# another\n")


@pytest.fixture
def committed(toy):
    """New rows have run and are committed in git's origin; DVC's remote has nothing of it, nor of what was before."""
    rerun(toy)
    toy.commit("Two")
    toy.git("push", "--quiet")
    shutil.rmtree(toy.root.parent / "store")
    return toy


def test_everything_that_the_graph_reads_and_writes_is_pushed_and_pulled(committed):
    assert remote.push(committed.root, say=quiet) == ALL
    other = committed.clone("other")
    assert remote.pull(other.root, say=quiet) == ALL
    assert other.dvc("repro", "best").count("Running stage") == 1  # check, whose output nobody keeps
    assert other.git("status", "--porcelain") == ""


def test_in_a_clone_of_what_is_up_to_date_nothing_is_pulled_and_nothing_runs(committed):
    remote.push(committed.root, say=quiet)
    other = committed.clone("other")
    assert remote.bring(other.root, say=pytest.fail) == []
    assert not (other.root / "data/rows.csv").exists()
    assert clean(other)


def test_in_a_clone_only_what_is_needed_is_pulled_and_only_what_changed_runs(committed):
    remote.push(committed.root, say=quiet)
    other = committed.clone("other")
    other.write("params.yaml", other.read("params.yaml").replace("[13, 14]", "[13, 14, 15]"))
    planned, ran = brought(other)
    assert planned == ["check", "fetch", "train@13", "train@14", "train@15", "score@13", "score@14", "score@15", "best"]
    assert ran == ["check", "train@15", "score@15", "best"]
    assert clean(other)


def test_what_no_stage_that_runs_needs_is_not_pulled(committed):
    remote.push(committed.root, say=quiet)
    other = committed.clone("other")
    other.write("dvc.yaml", other.read("dvc.yaml").replace("work.py best models", "work.py best  models"))
    assert brought(other) == (["best"], ["best"])
    assert not (other.root / "data/rows.csv").exists()
    assert (other.root / "models/checkpoints/14/a").exists()


def test_a_stage_that_never_ran_gets_all_that_it_waits_for(committed):
    remote.push(committed.root, say=quiet)
    other = committed.clone("other")
    settings = "{cmd: cp models/best/model after.txt, deps: [models/best, data/rows.csv], outs: [after.txt]}"
    other.write("dvc.yaml", f"{other.read('dvc.yaml')}  after: {settings}\n")
    assert brought(other) == (["after"], ["after"])
    assert other.read("after.txt") == committed.read("models/best/model")


def test_what_the_remote_lacks_is_an_error_where_all_should_be_in_it(committed):
    other = committed.clone("other")
    recode(other)
    with pytest.raises(DataError, match=r"dvc pull .*: neither the cache nor the remote has .*models/best"):
        remote.bring(other.root, say=quiet)


def test_of_a_smaller_set_raw_data_always_go_too_and_the_rest_may_be_absent(committed):
    assert remote.push(committed.root, ["models/best"], say=quiet) == ["data/rows.csv", "models/best"]
    other = committed.clone("other")
    assert remote.pull(other.root, ["best", "data/rows.csv.dvc"], say=quiet) == [
        "data/rows.csv",
        "models/best",
        "models/selection.json",
    ]
    assert brought(other, remake=True) == ([], [])
    assert other.git("status", "--porcelain") == ""
    assert not (other.root / "models/checkpoints").exists()


def test_where_less_was_pushed_what_is_needed_and_not_there_is_made_again(committed):
    remote.push(committed.root, ["models/best"], say=quiet)
    other = committed.clone("other")
    arrive(other, "text,label\nnewer,1\n")
    every = ["check", "fetch", "train@13", "train@14", "score@13", "score@14", "best"]
    # With DVC's own --pull --allow-missing this ends in an error: fetch's output passes for unchanged, and is needed.
    assert brought(other, remake=True) == (every, every)
    assert clean(other)
    assert other.git("status", "--porcelain").split()[1::2] == [
        "data/rows.csv.dvc",
        "dvc.lock",
        "models/scores/13.json",
        "models/scores/14.json",
        "models/selection.json",
    ]


def test_raw_data_that_were_never_pushed_can_not_be_made_again(committed):
    other = committed.clone("other")
    recode(other)
    with pytest.raises(DataError, match=r"data/rows\.csv: neither here nor in the remote; push it where it is"):
        remote.bring(other.root, remake=True, say=quiet)


def test_of_a_folder_that_a_stage_reads_all_goes_or_nothing(committed):
    both = ["models/checkpoints/13", "models/checkpoints/14"]
    assert remote.push(committed.root, ["train@13"], say=quiet) == ["data/rows.csv", *both]
    other = committed.clone("other")
    assert remote.pull(other.root, ["models/checkpoints/14"], say=quiet) == both
    assert brought(other) == ([], [])


def test_a_folder_that_is_there_in_part_is_completed_where_dvc_would_take_the_part_for_all(committed):
    remote.push(committed.root, ["train"], say=quiet)
    other = committed.clone("other")
    other.dvc("pull", "--quiet", "models/checkpoints/13")
    assert "Running stage 'best'" in other.dvc("repro", "--dry", "--pull", "--allow-missing")
    # best's own output is absent too: nothing but that makes it run.
    assert brought(other, remake=True) == (["best"], ["best"])
    assert (other.root / "models/checkpoints/14/a").exists()
    assert other.git("status", "--porcelain") == ""


def test_the_rest_of_a_folder_that_is_nowhere_is_made_again(committed):
    committed.dvc("push", "--quiet", "models/checkpoints/13", "data/rows.csv")
    other = committed.clone("other")
    other.dvc("pull", "--quiet", "models/checkpoints/13")
    planned, ran = brought(other, remake=True)
    assert planned == ran == ["check", "fetch", "train@14", "best"]
    assert other.git("status", "--porcelain") == ""


def test_what_a_former_seed_has_left_in_dvc_lock_is_not_missed(toy):
    toy.write("params.yaml", toy.read("params.yaml").replace("[13, 14]", "[13]"))
    shutil.rmtree(toy.root / "models/checkpoints/14")
    (toy.root / "models/scores/14.json").unlink()
    toy.dvc("repro", "--quiet")
    assert "train@14" in toy.read("dvc.lock")
    assert "models/checkpoints/14" not in remote.push(toy.root, say=quiet)
    assert remote.bring(toy.root, say=pytest.fail) == []


def test_what_is_nowhere_is_an_error_though_dvc_reports_success(committed):
    other = committed.clone("other")
    with pytest.raises(
        DataError, match=r"neither in the cache nor in the remote: data/fetched, data/rows\.csv, models/b"
    ):
        remote.push(other.root, say=quiet)
    with pytest.raises(DataError, match=r"dvc pull .*: neither the cache nor the remote has .*models/best"):
        remote.pull(other.root, say=quiet)


@pytest.mark.parametrize("move", [remote.push, remote.pull])
def test_a_target_a_remote_or_an_address_that_is_none_is_named(toy, move):
    with pytest.raises(UserError, match=r"models/bets: no stage that has run, .*did you mean models/best\?"):
        move(toy.root, ["models/bets"])
    with pytest.raises(UserError, match="remote 'stor' doesn't exist"):
        move(toy.root, remote="stor", say=quiet)
    toy.dvc("remote", "default", "--unset")
    with pytest.raises(UserError, match="no remote"):
        move(toy.root, say=quiet)


def test_a_remote_that_can_not_be_written_to_is_the_machines_fault(committed):
    committed.dvc("remote", "modify", "--local", "store", "url", "/proc/none")
    with pytest.raises(MachineError, match="dvc push"):
        remote.push(committed.root, say=quiet)


def test_targets_are_stages_matrices_outputs_folders_data_and_their_files(toy):
    stages, data = remote.of_graph(toy.root)
    resolve = lambda *targets: sorted(remote.resolve(targets, stages, data))  # noqa: E731
    assert remote.resolve("all", stages, data) == set(ALL)
    assert resolve("fetch") == ["data/fetched"]
    assert resolve("models/checkpoints/") == resolve("train") == ["models/checkpoints/13", "models/checkpoints/14"]
    assert resolve("data/rows.csv") == resolve("data/rows.csv.dvc") == ["data/rows.csv"]
    assert resolve() == []
    assert remote.push(toy.root, [], say=quiet) == ["data/rows.csv"]


@pytest.mark.parametrize("move", [remote.push, remote.pull])
def test_on_request_it_stops(toy, move):
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError, match="stopped on request; the same again goes on"):
        move(toy.root, say=quiet, stop=stop)


def test_before_the_first_run_there_is_nothing_to_move_but_raw_data(toy):
    (toy.root / "dvc.lock").unlink()
    assert remote.push(toy.root, say=quiet) == ["data/rows.csv"]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ERROR: config file error: remote 'x' doesn't exist", UserError),
        ("ERROR: unexpected error - Unable to locate credentials", UserError),
        ("ERROR: unexpected error - s3 is supported, but requires 'dvc-s3' to be installed", UserError),
        ('ERROR: unexpected error - Could not connect to the endpoint URL: "http://h/b"', MachineError),
        ("ERROR: failed to push data to the cloud - 3 files failed to upload", MachineError),
        ("", MachineError),
    ],
)
def test_what_dvc_says_tells_whose_fault_it_was(said, kind):
    assert type(dvc_command.failure(("push",), [said])) is kind


def test_an_address_in_what_dvc_says_is_shown_without_its_credentials():
    error = dvc_command.failure(("pull",), ["ERROR: can't reach https://me:hunter2@host/store?sig=hunter2"])
    assert str(error) == "dvc pull: can't reach https://host/store"


def test_folders_are_those_that_a_stage_reads_and_several_outputs_lie_in():
    stage = lambda inputs, outputs: recorded.Stage("", dict.fromkeys(inputs, ""), {}, dict.fromkeys(outputs, ""))  # noqa: E731
    stages = {"a": stage([], ["m/1"]), "b": stage([], ["m/2", "n/1", "mm/1"]), "c": stage(["m", "n", "o"], ["o/1"])}
    assert remote.resolve(["a"], stages, []) == {"m/1", "m/2"}
    assert remote.resolve(["n/1"], stages, []) == {"n/1"}
