"""What the Hub answers becomes an exit code and something to do."""

import httpx2
import pytest
from huggingface_hub.utils import hf_raise_for_status

from stages.errors import DataError, MachineError, ModelError, RemintError
from stages.model import hub


def answer(status: int, **headers: str) -> httpx2.Response:
    request = httpx2.Request("GET", "https://huggingface.co/api/models/own/tiny/revision/main")
    return httpx2.Response(
        status, request=request, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


@pytest.mark.parametrize(
    ("status", "headers", "kind", "meant"),
    [
        (403, {"x_error_code": "GatedRepo"}, ModelError, "ask for access on its page"),
        (404, {"x_error_code": "RepoNotFound"}, ModelError, "the Hub has no such model, or it is private"),
        (404, {"x_error_code": "RevisionNotFound"}, ModelError, "has no such branch, tag or commit"),
        (403, {}, ModelError, "the Hub answered 403"),
        (429, {}, MachineError, "no more requests for now"),
        (503, {}, MachineError, "can't be reached"),
    ],
)
def test_an_answer_says_whose_mistake_it_is(status: int, headers: dict[str, str], kind: type[RemintError], meant: str):
    with pytest.raises(kind, match=meant) as told, hub.explained("own/tiny", "main", kind="model"):
        hf_raise_for_status(answer(status, **headers))
    assert str(told.value).startswith(("model.name own/tiny: ", "model.revision main: "))


def test_a_failed_connection_is_found_within_what_a_library_made_of_it():
    meant = r"data.hub.name own/rows: .*ConnectTimeout: too slow"
    with pytest.raises(MachineError, match=meant), hub.explained("own/rows", None, kind="dataset"):
        raise ValueError("no data") from httpx2.ConnectTimeout("too slow")


def test_what_says_nothing_about_the_hub_goes_through():
    for error in (DataError("ours"), OSError(28, "No space left on device"), ValueError("a bug")):
        with pytest.raises(type(error)) as raised, hub.explained("own/tiny", None, kind="model"):
            raise error
        assert raised.value is error


def test_a_name_that_the_hub_cannot_have_is_refused():
    with pytest.raises(ModelError, match="it looks like owner/name"):
        hub.commit("own/--tiny", None, kind="model")


def test_a_commit_is_itself_without_a_connection():
    assert hub.commit("own/tiny", "c" * 40, kind="model") == "c" * 40
