import pytest

from pipeline import values


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ("", "''"),
        (" a ", "' a '"),
        ("a\nb", r"'a\nb'"),
        (None, "null"),
        (True, "true"),
        (1e-5, "1e-05"),
        ([1, "a"], "[1, 'a']"),
    ],
)
def test_a_value_is_shown_so_that_it_can_be_told_from_others(value, shown):
    assert values.show(value) == shown


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0 seconds"), (119, "119 seconds"), (120, "2 minutes"), (7200, "2 hours"), (86400 * 2.4, "2 days")],
)
def test_an_age_is_in_the_unit_that_suits(seconds, said):
    assert values.age(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(0, "0 bytes"), (1500, "1.5 kB"), (2.5e6, "2.5 MB"), (3e9, "3.0 GB")])
def test_a_size_is_in_the_unit_that_suits(count, said):
    assert values.size(count) == said
