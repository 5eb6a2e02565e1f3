import stat

import pytest

from pipeline.stored import Stored, digest_of, listing_of, md5_of, object_path


def put(cache, content):
    """An object of a cache; its digest."""
    file = cache / "new"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    digest = md5_of(file)
    target = object_path(cache, digest)
    target.parent.mkdir(parents=True, exist_ok=True)
    file.rename(target)
    return digest


def put_folder(cache, files):
    """A folder of a cache; its digest, and the list of its files."""
    listing = {name: put(cache, content) for name, content in files.items()}
    text = "[" + ", ".join(f'{{"md5": "{md5}", "relpath": "{name}"}}' for name, md5 in sorted(listing.items())) + "]"
    digest = put(cache, text.encode())
    path = object_path(cache, digest)
    path.rename(path.with_name(f"{path.name}.dir"))
    return f"{digest}.dir", listing


@pytest.fixture
def stored(tmp_path):
    return Stored(tmp_path / "root", tmp_path / "cache")


def test_the_digest_of_a_folder_is_that_of_its_list_of_files(tmp_path, stored):
    digest, listing = put_folder(stored.cache, {"b": b"2", "a/c": b"1"})
    assert digest_of(listing) == digest
    (tmp_path / "folder/a").mkdir(parents=True)
    (tmp_path / "folder/b").write_bytes(b"2")
    (tmp_path / "folder/a/c").write_bytes(b"1")
    assert listing_of(tmp_path / "folder") == listing


def test_bytes_are_found_in_the_cache_or_the_workspace_or_git_and_only_if_they_are_those(tmp_path, stored):
    digest = put(stored.cache, b"cached")
    assert stored.file("out", digest).read_bytes() == b"cached"
    stored.root.mkdir()
    (stored.root / "out").write_bytes(b"here")
    assert stored.file("out", md5_of(stored.root / "out")) == stored.root / "out"
    (tmp_path / "of git").write_bytes(b"git's")
    of_git = md5_of(tmp_path / "of git")
    assert stored.file("out", of_git) is None
    stored.committed = lambda path, md5: tmp_path / "of git" if (path, md5) == ("out", of_git) else None
    assert stored.file("out", of_git) == tmp_path / "of git"
    object_path(stored.cache, digest).chmod(0o644)
    object_path(stored.cache, digest).write_bytes(b"torn")
    assert stored.file("elsewhere", digest) is None


def test_a_folder_is_listed_from_the_cache_or_the_workspace_and_only_if_it_is_that_one(stored):
    digest, listing = put_folder(stored.cache, {"a": b"1", "b": b"2"})
    assert stored.listing("out", digest) == listing
    object_path(stored.cache, digest).unlink()
    assert stored.listing("out", digest) is None
    (stored.root / "out").mkdir(parents=True)
    (stored.root / "out/a").write_bytes(b"1")
    assert stored.listing("out", digest) is None
    (stored.root / "out/b").write_bytes(b"2")
    assert stored.listing("out", digest) == listing


def test_what_is_copied_is_whole_and_read_only(tmp_path, stored):
    digest, listing = put_folder(stored.cache, {"a": b"1", "b": b"2"})
    assert stored.copy(digest, tmp_path / "other")
    there = Stored(tmp_path, tmp_path / "other")
    assert there.listing("out", digest) == listing
    for md5 in (*listing.values(), digest):
        assert stat.S_IMODE(object_path(tmp_path / "other", md5).stat().st_mode) == 0o444
        assert there.cached(md5)


@pytest.mark.parametrize("spoil", [lambda file: file.unlink(), lambda file: file.write_bytes(b"torn")])
def test_a_folder_of_which_a_file_is_missing_or_torn_is_not_copied_and_the_cache_stays_as_it_is(
    tmp_path, stored, spoil
):
    digest, listing = put_folder(stored.cache, {"a": b"1", "b": b"2"})
    spoil(object_path(stored.cache, listing["a"]))
    before = listing_of(stored.cache)
    assert not stored.copy(digest, tmp_path / "other")
    assert not object_path(tmp_path / "other", digest).exists()
    assert listing_of(stored.cache) == before


@pytest.mark.parametrize("digest", ["", "ab", "0" * 32, "0" * 32 + ".dir"])
def test_a_digest_that_nothing_has_is_not_copied(tmp_path, stored, digest):
    assert not stored.copy(digest, tmp_path / "other")
    assert stored.file("out", digest) is None
