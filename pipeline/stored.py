"""A digest of dvc.lock -> the bytes: from DVC's cache, the workspace, or git. Nothing is written where they lie."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

FILES = Path("files/md5")
"""Where a cache of DVC 3 holds its objects: <two digits>/<the others>."""

FOLDER = ".dir"
"""What the digest of a folder ends with: that of the list of its files, which is an object of its own."""


def md5_of(file: Path) -> str:
    """The md5 of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def listing_of(folder: Path) -> dict[str, str]:
    """The md5 of every file under a folder, by its path in there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {file.relative_to(folder).as_posix(): md5_of(file) for file in files}


def digest_of(listing: dict[str, str]) -> str:
    """The digest of a folder, as DVC 3 makes it."""
    entries = [{"md5": md5, "relpath": path} for path, md5 in sorted(listing.items())]
    text = json.dumps(entries, sort_keys=True).encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest() + FOLDER


class Stored:
    """What one checkout has of the outputs of a dvc.lock."""

    def __init__(self, root: Path, cache: Path, committed: Callable[[str, str], Path | None] | None = None) -> None:
        """`committed` gives a file of a commit, by path and md5, where git has it."""
        self.root = root
        self.cache = cache
        self.committed = committed

    def cached(self, digest: str) -> Path | None:
        """The object in the cache whose bytes have that digest."""
        path = object_path(self.cache, digest)
        return path if len(digest) > 2 and path.is_file() and md5_of(path) == digest.removesuffix(FOLDER) else None

    def file(self, path: str, md5: str) -> Path | None:
        """A file that holds the bytes of an output, or of a file in one."""
        here = self.root / path
        if cached := self.cached(md5):
            return cached
        if here.is_file() and md5_of(here) == md5:
            return here
        return self.committed(path, md5) if self.committed else None

    def listing(self, path: str, digest: str) -> dict[str, str] | None:
        """The md5 of each file of an output that is a folder, by its path in there."""
        if cached := self.cached(digest):
            return {entry["relpath"]: entry["md5"] for entry in json.loads(cached.read_text(encoding="utf-8"))}
        here = self.root / path
        found = listing_of(here) if here.is_dir() else {}
        return found if found and digest_of(found) == digest else None

    def copy(self, digest: str, cache: Path) -> bool:
        """Copy an output, or raw data, from this cache into another; False where not all of it is whole."""
        listed = self.cached(digest)
        if listed is None:
            return False
        objects = [digest]
        if digest.endswith(FOLDER):
            objects += [entry["md5"] for entry in json.loads(listed.read_text(encoding="utf-8"))]
        # The list of a folder comes last: with it DVC takes the folder to be all there.
        return all(self._copy_object(one, cache) for one in reversed(objects))

    def _copy_object(self, digest: str, cache: Path) -> bool:
        target = object_path(cache, digest)
        if target.is_file():
            return True
        source = self.cached(digest)
        if source is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            # As DVC protects its objects: it takes one that can be written to for one that may have been.
            target.chmod(0o444)
        return source is not None


def object_path(cache: Path, digest: str) -> Path:
    """Where a cache holds the object of a digest."""
    return cache / FILES / digest[:2] / digest[2:]
