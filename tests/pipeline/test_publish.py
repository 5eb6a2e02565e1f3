import re

import pytest

from pipeline import dvc_cli, dvc_command, git, publish, remote
from pipeline.overrides import with_overrides
from stages.errors import GateError, MachineError, UserError
from tests.toy_project import rerun


def ahead(toy):
    """How many commits the checkout has that the origin has not."""
    toy.git("fetch", "--quiet")
    return int(toy.git("rev-list", "--count", "origin/main..HEAD"))


def test_nothing_is_committed_where_nothing_changed(toy):
    head = toy.head()
    assert publish.commit(toy.root) is None
    toy.dvc("repro")
    assert publish.commit(toy.root, ran=["check"]) is None
    assert publish.push_commit(toy.root, say=pytest.fail) is None
    assert toy.head() == head


def test_a_commit_holds_what_the_run_changed_and_says_what_it_came_to(rerun_toy):
    before = rerun_toy.head()
    rerun_toy.write("notes.txt", "not of the run")
    made = publish.commit(rerun_toy.root, ran=["train@13", "train@14", "score@13", "score@14", "best"])
    assert rerun_toy.git("show", "--name-only", "--format=", made.hash).split() == made.files
    assert made.files == [
        "data/rows.csv.dvc",
        "dvc.lock",
        "models/scores/13.json",
        "models/scores/14.json",
        "models/selection.json",
    ]
    assert rerun_toy.head("HEAD~1") == before
    assert rerun_toy.git("status", "--porcelain") == "?? notes.txt"
    assert (
        rerun_toy.git("log", "-1", "--format=%an <%ae>|%B").split("\n")[0] == f"Test <test@example.com>|{made.subject}"
    )
    assert made.subject == "Retrain: best f1 0.5000, best.score 0.0460 (+0.0200)"
    lines = [" ".join(line.split()) for line in made.message.split("\n")]
    assert "best.best.score 0.0260 -> 0.0460 (+0.0200)" in lines
    assert "best.f1 0.5000 (unchanged)" in lines
    assert "score@13.accuracy 0.0130 -> 0.0230 (+0.0100)" in lines
    assert "steps" not in made.message
    assert re.search(r"^  data/rows\.csv: [0-9a-f]{32} -> [0-9a-f]{32}$", made.message, re.MULTILINE)
    assert made.message.endswith("\n\nRan: train@13, train@14, score@13, score@14, best\n")


def test_another_clone_gets_all_of_it_back_and_runs_nothing(rerun_toy):
    remote.push(rerun_toy.root)
    publish.commit(rerun_toy.root)
    assert publish.push_commit(rerun_toy.root) == rerun_toy.head()
    other = rerun_toy.clone("other")
    other.dvc("pull", "--quiet")
    assert other.dvc("repro", "best").count("Running stage") == 1  # check, whose output nobody keeps
    assert other.git("status", "--porcelain") == ""
    assert other.read("models/best/model") == rerun_toy.read("models/best/model")


def test_overrides_are_committed_with_the_run_and_named(toy):
    overridden = {"train.rate": 3e-5}
    toy.write("params.yaml", with_overrides(toy.read("params.yaml"), overridden))
    toy.dvc("repro", "--quiet")
    made = publish.commit(toy.root, overridden=overridden)
    assert "params.yaml" in made.files
    assert "\n\nParams:\n  train.rate: 0.001 -> 3e-05\n\n" in made.message
    # What the run sets again is no change.
    assert publish.commit(toy.root, overridden=overridden) is None


def test_a_change_of_params_by_hand_is_nobodys_commit(toy):
    toy.write("params.yaml", toy.read("params.yaml").replace("info", "debug"))
    with pytest.raises(UserError, match=r"params\.yaml: changed by hand and not committed; commit it, or `git restore"):
        publish.commit(toy.root)
    toy.write("params.yaml", with_overrides(toy.read("params.yaml"), {"train.rate": 3e-5}))
    with pytest.raises(UserError, match="changed by hand"):
        publish.commit(toy.root, overridden={"train.rate": 3e-5})


@pytest.mark.parametrize("staged", [False, True])
def test_an_output_that_is_no_more_is_committed_as_gone(toy, staged):
    overridden = {"seeds": [13]}
    toy.write("params.yaml", with_overrides(toy.read("params.yaml"), overridden))
    (toy.root / "models/scores/14.json").unlink()
    if staged:
        toy.git("rm", "--quiet", "--cached", "models/scores/14.json")
    toy.dvc("repro", "--quiet")
    made = publish.commit(toy.root, overridden=overridden)
    assert "models/scores/14.json" in made.files
    assert "models/scores/14.json" not in git.files(toy.root, made.hash, "*.json")
    assert toy.git("status", "--porcelain") == ""


def test_what_dvc_wrote_into_a_gitignore_is_of_the_run_and_what_a_person_wrote_is_not(toy):
    toy.write("models/.gitignore", "/checkpoints\n")
    toy.git("commit", "--quiet", "--message", "Forgotten", "models/.gitignore")
    toy.write("data/.gitignore", toy.read("data/.gitignore") + "/mine\n")
    rerun(toy)
    assert toy.read("models/.gitignore") == "/checkpoints\n/best\n"
    made = publish.commit(toy.root)
    assert "models/.gitignore" in made.files
    assert toy.git("status", "--porcelain").strip() == "M data/.gitignore"


def test_raw_data_in_neither_git_nor_dvc_are_named_before_and_after_a_run(toy):
    toy.write("data/new.csv", "text,label\nnew,1\n")
    toy.write("params.yaml", toy.read("params.yaml").replace("rows.csv", "new.csv"))
    toy.git("commit", "--quiet", "--message", "Other data", "params.yaml")
    message = r"data/new\.csv: in neither git nor DVC, .*`dvc add data/new\.csv`"
    with pytest.raises(UserError, match=message):
        publish.commit(toy.root)
    toy.dvc("repro", "--quiet")
    with pytest.raises(UserError, match=message):
        publish.commit(toy.root)
    toy.dvc("add", "--quiet", "data/new.csv")
    made = publish.commit(toy.root)
    assert {"data/new.csv.dvc", "data/.gitignore", "dvc.lock"} <= set(made.files)


def test_data_that_have_changed_since_they_were_given_to_dvc_are_named(toy):
    toy.write("data/rows.csv", "text,label\nby,hand\n")
    toy.dvc("repro", "--quiet", "best")
    toy.git("restore", "data/rows.csv.dvc")
    with pytest.raises(UserError, match=r"data/rows\.csv: other bytes than data/rows\.csv\.dvc names; `dvc add"):
        publish.commit(toy.root)


@pytest.mark.parametrize("path", ["work.py", "dvc.yaml"])
def test_what_decides_the_run_and_is_not_committed_is_named(toy, path):
    toy.write(path, toy.read(path) + "\n# changed\n")
    with pytest.raises(UserError, match=f"{re.escape(path)}: decides the run, and is not committed as it is here"):
        publish.commit(toy.root)


def test_what_others_have_staged_is_not_swept_in(rerun_toy):
    rerun_toy.write("notes.txt", "staged")
    rerun_toy.git("add", "notes.txt")
    with pytest.raises(UserError, match=r"notes\.txt: staged, and not of the run"):
        publish.commit(rerun_toy.root)
    rerun_toy.git("restore", "--staged", "notes.txt")
    rerun_toy.git("add", "dvc.lock")
    assert "notes.txt" not in publish.commit(rerun_toy.root).files


def test_a_detached_head_needs_a_branch(toy):
    toy.git("switch", "--quiet", "--detach")
    with pytest.raises(UserError, match="HEAD is detached; name the branch"):
        publish.commit(toy.root)
    rerun(toy)
    made = publish.commit(toy.root, branch="nightly")
    assert publish.push_commit(toy.root, branch="nightly") == made.hash
    assert toy.clone("other", "--branch", "nightly").head() == made.hash
    with pytest.raises(UserError, match="HEAD is detached; name the branch to push to"):
        publish.push_commit(toy.root)


def test_without_an_identity_git_does_not_make_one_up(toy, monkeypatch):
    (toy.root.parent / "home/.gitconfig").write_text("")
    monkeypatch.setenv("EMAIL", "")
    with pytest.raises(UserError, match=r"git does not know whom to commit as; `git config user\.name"):
        publish.commit(toy.root)


def test_a_merge_under_way_and_a_hook_that_refuses_are_named(rerun_toy):
    hook = rerun_toy.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho no models on Fridays >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(UserError, match="no models on Fridays"):
        publish.commit(rerun_toy.root)
    assert rerun_toy.git("diff", "--cached", "--name-only") == ""
    (rerun_toy.root / ".git/MERGE_HEAD").write_text(rerun_toy.head() + "\n")
    with pytest.raises(UserError, match=r"git is in the middle of something \(MERGE_HEAD\)"):
        publish.commit(rerun_toy.root)


def test_onto_what_others_pushed_meanwhile_the_run_is_put_and_pushed(toy):
    other = toy.clone("other")
    rerun(toy)
    publish.commit(toy.root)
    other.write("README.md", "Theirs")
    theirs = other.commit("Theirs")
    other.git("push", "--quiet")
    said = []
    pushed = publish.push_commit(toy.root, say=said.append)
    assert pushed == toy.head() == toy.head("origin/main")
    assert toy.head("HEAD~1") == theirs
    assert said == ["main of origin (../origin.git) has moved: what is here goes onto it"]
    assert ahead(toy) == 0


def test_a_shallow_clone_does_the_same(toy):
    shallow = toy.clone("shallow", "--depth", "1")
    shallow.dvc("pull", "--quiet")
    shallow.dvc("repro", "--quiet")
    for one, name in ((toy, "a"), (toy, "b")):
        one.write(name, name)
        one.commit(name)
    toy.git("push", "--quiet")
    rerun(shallow)
    made = publish.commit(shallow.root)
    assert publish.push_commit(shallow.root) != made.hash
    toy.git("pull", "--quiet")
    assert toy.git("log", "--format=%s").split("\n") == [made.subject, "b", "a", "One"]


def test_code_that_came_in_meanwhile_holds_the_push_until_it_has_run(rerun_toy):
    other = rerun_toy.clone("other")
    made = publish.commit(rerun_toy.root)
    other.write("work.py", other.read("work.py") + "\n# another\n")
    other.commit("Code")
    other.git("push", "--quiet")
    with pytest.raises(GateError, match=r"what came in changes check: nothing is pushed.*the next run"):
        publish.push_commit(rerun_toy.root, aside="run-of-today")
    assert ahead(rerun_toy) == 1
    assert rerun_toy.head("HEAD~1") == rerun_toy.head("origin/main")
    # As it was made it is in reach of everybody, with the code that it was made with.
    assert rerun_toy.clone("third", "--branch", "run-of-today").head() == made.hash
    rerun_toy.dvc("repro", "--quiet")
    assert publish.commit(rerun_toy.root).files == ["dvc.lock"]
    publish.push_commit(rerun_toy.root)
    assert ahead(rerun_toy) == 0


def test_two_runs_that_differ_do_not_overwrite_each_other(toy):
    other = toy.clone("other")
    other.dvc("pull", "--quiet")
    other.dvc("repro", "--quiet")
    rerun(other, "text,label\ntheirs,1\n")
    publish.commit(other.root)
    theirs = publish.push_commit(other.root)
    rerun(toy, "text,label\nours,2\n")
    ours = publish.commit(toy.root).hash
    with pytest.raises(GateError, match=rf"conflicts with this run in .*dvc\.lock.*commit {ours[:9]} stays here"):
        publish.push_commit(toy.root)
    assert toy.head() == ours
    assert toy.git("status", "--porcelain") == ""
    assert not (toy.root / ".git/rebase-merge").exists()
    assert toy.git("ls-remote", "origin", "main").split()[0] == theirs


def test_two_runs_of_the_same_bytes_are_one(toy):
    other = toy.clone("other")
    other.dvc("pull", "--quiet")
    other.dvc("repro", "--quiet")
    for one in (other, toy):
        rerun(one)
        publish.commit(one.root)
    theirs = publish.push_commit(other.root)
    assert publish.push_commit(toy.root) is None
    assert toy.head() == theirs


def test_where_others_push_all_the_time_it_is_tried_again_and_given_up(rerun_toy, monkeypatch):
    other = rerun_toy.clone("other")
    made = publish.commit(rerun_toy.root)
    pushes = []

    def push_first(*arguments):
        pushes.append(len(pushes))
        other.git("pull", "--quiet")
        other.write(f"{len(pushes)}.txt", "theirs")
        other.commit("Theirs")
        other.git("push", "--quiet")
        return push(*arguments)

    push = publish._push
    monkeypatch.setattr(publish, "_push", push_first)
    with pytest.raises(MachineError, match=f"moved {publish.ATTEMPTS} times in a row; push again later"):
        publish.push_commit(rerun_toy.root)
    assert len(pushes) == publish.ATTEMPTS
    assert rerun_toy.git("log", "-1", "--format=%s") == made.subject
    monkeypatch.undo()


def test_files_that_are_changed_here_are_not_put_at_risk(toy):
    other = toy.clone("other")
    toy.write("README.md", "Mine")
    toy.commit("Readme")
    toy.git("push", "--quiet")
    rerun(toy)
    publish.commit(toy.root)
    other.git("pull", "--quiet")
    other.write("theirs.txt", "theirs")
    other.commit("Theirs")
    other.git("push", "--quiet")
    toy.write("README.md", "Mine, and changed")
    with pytest.raises(UserError, match=r"has moved, and README\.md here is changed and not committed"):
        publish.push_commit(toy.root)
    assert toy.read("README.md") == "Mine, and changed"
    assert ahead(toy) == 1


def test_a_remote_that_is_not_there_costs_nothing_but_the_push(rerun_toy):
    publish.commit(rerun_toy.root)
    rerun_toy.git("remote", "set-url", "origin", "../gone.git")
    with pytest.raises(UserError, match="The commit stays here; nothing is lost"):
        publish.push_commit(rerun_toy.root)
    rerun_toy.git("remote", "set-url", "origin", "http://127.0.0.1:9/nothing.git")
    with pytest.raises(MachineError, match="The commit stays here; nothing is lost"):
        publish.push_commit(rerun_toy.root)
    rerun_toy.git("remote", "set-url", "origin", "../origin.git")
    assert publish.push_commit(rerun_toy.root) == rerun_toy.head()


def test_a_branch_that_lets_nobody_push_is_named(rerun_toy):
    publish.commit(rerun_toy.root)
    hook = rerun_toy.root.parent / "origin.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho main is protected >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(UserError, match="main is protected"):
        publish.push_commit(rerun_toy.root)


SECRET = "hunter2secret"


def test_no_secret_gets_into_a_commit_a_file_or_a_message(rerun_toy, monkeypatch):
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PREFECT_API_KEY", "DVC_STUDIO_TOKEN", "MY_PASSWORD"):
        monkeypatch.setenv(name, SECRET)
    said = []
    rerun_toy.git("remote", "set-url", "origin", f"http://user:{SECRET}@127.0.0.1:9/models.git?token={SECRET}")
    rerun_toy.git("config", "remote.origin.pushurl", f"http://{SECRET}@127.0.0.1:9/models.git?token={SECRET}")
    made = publish.commit(rerun_toy.root)
    with pytest.raises(MachineError) as caught:
        publish.push_commit(rerun_toy.root, say=said.append)
    with pytest.raises(UserError) as refused:
        git.run(rerun_toy.root, "fetch", f"http://user:{SECRET}@127.0.0.1:9/models.git")
    rerun_toy.git("remote", "set-url", "origin", "../origin.git")
    rerun_toy.git("config", "--unset", "remote.origin.pushurl")
    publish.push_commit(rerun_toy.root, say=said.append)
    messages = [made.message, str(caught.value), str(refused.value), *said]
    assert "http://127.0.0.1:9/models.git" in messages[1]
    assert [message for message in messages if SECRET in message] == []
    objects = rerun_toy.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert len(objects) > 10
    assert [one for one in objects if SECRET in rerun_toy.git("cat-file", "-p", one)] == []
    files = [path for path in rerun_toy.root.parent.rglob("*") if path.is_file() and "/home/" not in str(path)]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fatal: https://me:pass@host/a.git: no", "fatal: https://host/a.git: no"),
        ("'https://token@host:8080/a b'", "'https://host:8080/a b'"),
        ("ssh://git@host/a.git and git@host:a.git", "ssh://host/a.git and git@host:a.git"),
        ("https://blob.host/data?sv=1&sig=abc%3D more", "https://blob.host/data more"),
        ("what? a@b, s3://bucket/x", "what? a@b, s3://bucket/x"),
    ],
)
def test_an_address_is_shown_without_what_opens_it(said, shown):
    assert git.without_credentials(said) == shown


def test_what_is_absent_is_not_changed_and_what_is_changed_is(toy):
    other = toy.clone("other")
    assert dvc_command.unclean(dvc_cli.look(other.root)) == set()
    other.dvc("pull", "--quiet", "models/checkpoints/13")
    assert dvc_command.unclean(dvc_cli.look(other.root)) == {"best"}
    other.write("params.yaml", other.read("params.yaml").replace("1.0e-3", "2.0e-3"))
    assert dvc_command.unclean(dvc_cli.look(other.root)) == {"best", "check", "train@13", "train@14"}
