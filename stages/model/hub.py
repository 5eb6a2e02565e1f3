"""The Hugging Face Hub: which commit a revision stands for, and what its errors mean to the user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from stages.errors import DataError, MachineError, ModelError, RemintError, UserError

Kind = Literal["model", "dataset"]
_COMMIT = re.compile("[0-9a-f]{40}")


def commit(name: str, revision: str | None, *, kind: Kind) -> str:
    """The commit that a branch or a tag (null: main) stands for now; a commit is itself, and needs no connection.

    Raises:
        UserError: the Hub has no such repository or revision, or does not let this user see it.
        MachineError: the Hub can't be reached.
    """
    from huggingface_hub import HfApi

    if revision and _COMMIT.fullmatch(revision):
        return revision
    with explained(name, revision, kind=kind):
        # Not resolve_revision: without a connection it takes what a branch stood for some time ago.
        found: str | None = HfApi().repo_info(name, repo_type=kind, revision=revision or "main").sha
    assert found is not None
    return found


@contextmanager
def explained(name: str, revision: str | None, *, kind: Kind) -> Iterator[None]:
    """Turn what the Hub's libraries raise in the block into errors that say what to do; others go through."""
    try:
        yield
    except RemintError:
        raise
    except Exception as error:
        chain: list[BaseException] = [error]
        while link := chain[-1].__cause__:
            chain.append(link)
        # An answer of the Hub says more than the failed request around it or within it.
        for reading in (_answered, _unreachable):
            for link in chain:
                if meant := reading(link, name, revision, kind):
                    raise meant from error
        raise


def _answered(error: BaseException, name: str, revision: str | None, kind: Kind) -> RemintError | None:
    """What an answer of the Hub means, or that it was not to be asked."""
    from huggingface_hub import errors

    refused: type[UserError] = ModelError if kind == "model" else DataError
    knob = "model" if kind == "model" else "data.hub"
    where = f"{knob}.name {name}"
    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.HFValidationError):
        return refused(f"{where}: not a name that the Hub can have; it looks like owner/name")
    if isinstance(error, errors.GatedRepoError):
        return refused(f"{where}: gated; ask for access on its page, then {log_in}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return refused(f"{where}: the Hub has no such {kind}, or it is private; see to the spelling, or {log_in}")
    if isinstance(error, errors.RevisionNotFoundError):
        return refused(f"{knob}.revision {revision}: {name} has no such branch, tag or commit; its page lists those")
    if isinstance(error, errors.EntryNotFoundError):  # of a file that not every repository has
        return None
    if isinstance(error, errors.OfflineModeIsEnabled):
        return MachineError(f"{where}: HF_HUB_OFFLINE is set, so the Hub is not asked; unset it, or {_WITHOUT[kind]}")
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code == 429:
        return MachineError(f"{where}: the Hub takes no more requests for now (429); wait, or {log_in}")
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code < 500:
        return refused(f"{where}: the Hub answered {error.response.status_code}: {_first_line(error)}; {log_in}")
    return None


def _unreachable(error: BaseException, name: str, revision: str | None, kind: Kind) -> RemintError | None:
    """What a failed connection means."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    kinds = (HTTPError, ConnectionError, TimeoutError, errors.LocalEntryNotFoundError, errors.XetDownloadError)
    if not isinstance(error, kinds):
        return None
    return MachineError(
        f"{'model' if kind == 'model' else 'data.hub'}.name {name}: the Hub can't be reached "
        f"({type(error).__name__}: {_first_line(error)}); try again where there is a connection, or {_WITHOUT[kind]}"
    )


_WITHOUT = {
    "model": "set model.name to a folder with the model's files",
    "dataset": "set data.hub to null and data.raw to files of your own",
}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
