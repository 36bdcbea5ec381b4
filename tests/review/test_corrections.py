import pytest
from finished_runs import lines

from nngcd.core.errors import DataError, NoSuchDataError, UserError
from nngcd.review.corrections import apply_corrections, read_corrections
from nngcd.review.session import Review


def table(tmp_path, text):
    path = tmp_path / "corrections.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_names_and_merges_are_one_edit(run, tmp_path):
    found = read_corrections(table(tmp_path, "category,label\nnew-001,Tawny\nnew-002,owl\n\ncrow,crow\n"))
    review = Review(run)
    first = review.state
    words = ["name 'new-001' 'Tawny'", "merge 'new-002' into 'owl'"]
    assert apply_corrections(review, found, is_preview=True) == words
    assert review.state == first and not run.edits.exists()
    assert apply_corrections(review, found) == words
    assert [line["op"] for line in lines(run)] == ["batch"]
    assert Review(run).state.images["id-i"].category == "owl"
    review.undo()
    assert review.state == first


def test_a_table_can_be_applied_again(run, tmp_path):
    found = read_corrections(table(tmp_path, "category,label\nnew-001,Tawny\nnew-002,owl\n"))
    review = Review(run)
    apply_corrections(review, found)
    assert apply_corrections(review, found) == []


def test_images_move_and_share_a_new_category(run, tmp_path):
    text = "file_name;label\n_unlabelled/b.png;crow\nh.png;Barn\ni.png;Barn\n"
    apply_corrections(review := Review(run), read_corrections(table(tmp_path, text)))
    assert review.state.images["id-b"].category == "crow"
    assert review.state.members("new-004") == ["id-h", "id-i"]
    assert review.state.categories["new-004"].name == "Barn"


def test_one_row_that_cannot_be_done_stops_all(run, tmp_path):
    found = read_corrections(table(tmp_path, "file_name,label\ni.png,owl\nz.png,owl\n"))
    with pytest.raises(UserError, match=r"line 3: no image 'z.png'"):
        apply_corrections(Review(run), found)
    assert not run.edits.exists()


@pytest.mark.parametrize("text", ["", "a,b\n", "category,file_name,label\n", "category,label\nnew-001,\n"])
def test_a_table_without_what_is_needed_is_refused(tmp_path, text):
    with pytest.raises(DataError):
        read_corrections(table(tmp_path, text))


def test_a_table_that_is_not_there_is_named_with_its_neighbour(tmp_path):
    table(tmp_path, "category,label\n")
    with pytest.raises(NoSuchDataError, match=r"correction\.csv does not exist\. Did you mean '.*corrections\.csv'"):
        read_corrections(tmp_path / "correction.csv")
