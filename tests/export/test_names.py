import pytest

from nngcd.export.tree import MAX_BYTES, safe_name, safe_names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Copepoda", "Copepoda"),
        ("barn owl (2)", "barn owl (2)"),
        ("Käuzchen \N{OWL}", "Käuzchen \N{OWL}"),
        ("a/b", "a_b"),
        ("a\\b:c*d?e|f", "a_b_c_d_e_f"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("com1", "_com1"),
        ("console", "console"),
        ("dots...", "dots"),
        (" spaces ", "spaces"),
        ("..", "_"),
        ("", "_"),
        (".hidden", "_hidden"),
        ("<script>", "_script_"),
        ("line\nbreak\0", "line_break_"),
        ("e\N{COMBINING ACUTE ACCENT}", "é"),
    ],
)
def test_safe_names(name, safe):
    assert safe_name(name) == safe
    assert safe_name(safe) == safe


def test_long_names_are_cut_between_characters_and_stay_different():
    first, second = "ä" * 200 + ".jpeg", "ä" * 201 + ".jpeg"
    assert len(safe_name(first).encode()) <= MAX_BYTES
    assert safe_name(first).endswith(".jpeg")
    assert safe_name(first) != safe_name(second)


def test_names_that_differ_only_in_case_or_form_get_a_hash_and_good_names_stay():
    names = ["Owl", "owl", "OWL", "a/b", "a_b", "é", "e\N{COMBINING ACUTE ACCENT}", "_unsure"]
    found = safe_names({name: name for name in names}, taken=["_unsure"])
    assert (found["Owl"], found["a_b"], found["é"]) == ("Owl", "a_b", "é")
    assert found["a/b"].startswith("a_b-")
    assert found["_unsure"].startswith("_unsure-")
    assert len({name.casefold() for name in found.values()}) == len(names)
