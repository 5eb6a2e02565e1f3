from importlib.metadata import version

from stages import versions


def test_what_is_not_installed_as_a_lock_file_says_is_named_with_both_versions():
    numpy = version("numpy")
    as_it_is = f"ruamel-yaml=={version('ruamel.yaml')}"
    lock = f"# made by a tool\n--index-url x\nnumpy==0.1\nno-such-package>=2  # why\n{as_it_is}\n"
    assert versions.deviations(lock) == [("numpy", "==0.1", numpy), ("no-such-package", ">=2", "")]
    assert [one.name for one in versions.wanted(lock)] == ["numpy", "no-such-package", "ruamel-yaml"]
    assert versions.deviations(f"numpy=={numpy}\n") == []
