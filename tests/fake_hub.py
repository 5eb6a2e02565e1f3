"""A Hugging Face Hub on loopback: enough of its HTTP interface for the real client libraries to fetch from it."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """One repository at one commit."""

    files: dict[str, bytes]
    branches: dict[str, str] = field(default_factory=lambda: {"main": "a" * 40})
    status: int = 200
    error_code: str | None = None
    """What the Hub answers instead, as its X-Error-Code says it: GatedRepo for example."""

    def entries(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for name, content in self.files.items()
        ]


@dataclass
class FakeHub:
    """The repositories (models/<owner>/<name>, datasets/<owner>/<name>) and the requests that there were."""

    repositories: dict[str, Repository]
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def environment(self, home: Path) -> dict[str, str]:
        """What a process needs to take this for the Hub, with nothing fetched before."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder, as a repository has them."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def serving(**repositories: Repository) -> Iterator[FakeHub]:
    """Serve repositories, named models__owner__name or datasets__owner__name, while the block runs."""
    hub = FakeHub({name.replace("__", "/"): repository for name, repository in repositories.items()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    """The class of which the server makes an instance for each connection."""
    return type("Bound", (_Handler,), {"hub": hub})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, code: str, status: int = 404, **headers: str) -> None:
        self.answer(b"{}", status, X_Error_Code=code, **headers)

    def handle_request(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if api := parts[0] == "api":
            parts = parts[1:]
        if parts[0] not in ("models", "datasets"):
            parts = ["models", *parts]
        repository = self.hub.repositories.get("/".join(parts[:3]))
        if repository is None:
            return self.refuse("RepoNotFound")
        if repository.error_code:
            return self.refuse(repository.error_code, repository.status)
        verb, revision, file = parts[3], parts[4], "/".join(parts[5:])
        commit = repository.branches.get(revision, revision)
        if commit not in repository.branches.values():
            return self.refuse("RevisionNotFound")
        if api:
            return self.describe("/".join(parts[1:3]), repository, verb, commit, sent)
        if file not in repository.files:
            return self.refuse("EntryNotFound", X_Repo_Commit=commit)
        content = repository.files[file]
        return self.answer(content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=commit)

    def describe(self, name: str, repository: Repository, verb: str, commit: str, sent: bytes) -> None:
        entries = repository.entries()
        answers: dict[str, Callable[[], Any]] = {
            "revision": lambda: {"id": name, "sha": commit, "siblings": [{"rfilename": e["path"]} for e in entries]},
            "tree": lambda: entries,
            "paths-info": lambda: [entry for entry in entries if entry["path"] in json.loads(sent)["paths"]],
        }
        self.answer(json.dumps(answers[verb]()).encode(), Content_Type="application/json")

    def log_message(self, *arguments: Any) -> None:
        pass

    do_GET = do_HEAD = do_POST = handle_request  # noqa: N815
