import dataclasses

import numpy as np
import pytest

from nngcd.core.errors import UserError
from nngcd.review.edits import Edit, apply, inverse, make_edit, patch_from_json, patch_to_json, replay
from nngcd.review.state import Category, Placed, State, category_id

T = "2026-11-16T10:00:00+00:00"


@pytest.fixture
def state():
    images = {"a": "owl", "b": "owl", "c": "new-001", "d": "new-001", "e": "new-002"}
    categories = {"owl": "known", "crow": "known", "new-001": "new", "new-002": "new"}
    return State(
        {image: Placed(category) for image, category in images.items()},
        {id_: Category(id_, kind) for id_, kind in categories.items()},
    )


def do(state, op, **args):
    return apply(state, make_edit(state, op, args, t=T, user="me"))


def where(state):
    return {image: placed.category for image, placed in state.images.items()}


def test_a_name_changes_neither_the_id_nor_an_image(state):
    after = do(state, "rename", category="new-001", name=" Tawny ")
    assert after.categories["new-001"] == Category("Tawny", "new", action="rename", at=T)
    assert after.images == state.images
    assert state.categories["new-001"].name == "new-001"


def test_merging_retires_ids_and_keeps_the_target(state):
    after = do(state, "merge", categories=["owl", "new-001", "new-002"], into="owl")
    assert set(where(after).values()) == {"owl"}
    assert after.categories["new-001"].into == after.categories["new-002"].into == ("owl",)
    assert list(after.live) == ["owl", "crow"]
    with pytest.raises(UserError, match=r"'new-001' was merged into 'owl'. Use 'owl'"):
        do(after, "rename", category="new-001", name="x")


def test_a_merged_category_is_approved_only_if_all_were(state):
    one = do(state, "approve", category="new-001")
    assert not do(one, "merge", categories=["new-001", "new-002"], into="new-001").categories["new-001"].is_approved
    both = do(one, "approve", category="new-002")
    assert do(both, "merge", categories=["new-001", "new-002"], into="new-001").categories["new-001"].is_approved


def test_splitting_makes_fresh_categories_and_retires_the_old_one(state):
    after = do(state, "split", category="new-001", parts={"new-003": ["d"], "new-004": ["c"]})
    assert where(after) == {"a": "owl", "b": "owl", "c": "new-004", "d": "new-003", "e": "new-002"}
    assert after.categories["new-001"].into == ("new-003", "new-004")
    with pytest.raises(UserError, match=r"'new-001' was split into 'new-003', 'new-004'. Use 'new-003', 'new-004'"):
        do(after, "approve", category="new-001")
    for parts in ({"new-003": ["c"]}, {"new-003": ["c"], "new-004": []}, {"new-003": ["c"], "new-002": ["d"]}):
        with pytest.raises(UserError, match=r"split|unused id"):
            do(state, "split", category="new-001", parts=parts)


def test_a_category_may_stay_one_of_its_parts(state):
    moved = do(do(state, "approve", category="owl"), "move", images=["c"], to="owl")
    after = do(moved, "split", category="owl", parts={"new-003": ["b"], "owl": ["a", "c"]})
    assert where(after) == {"a": "owl", "b": "new-003", "c": "owl", "d": "new-001", "e": "new-002"}
    assert after.categories["owl"] == Category("owl", "known", action="split", at=T, parts=("new-003",))
    assert (after.images["a"], after.images["c"]) == (Placed("owl"), Placed("owl", "move", T))
    assert after.became("owl") == ["owl", "new-003"]
    again = do(after, "merge", categories=["owl", "new-003"], into="owl")
    assert again.became("owl") == again.became("new-003") == ["owl"]
    elsewhere = do(after, "merge", categories=["crow", "owl"], into="crow")
    assert elsewhere.became("owl") == ["crow", "new-003"]
    assert elsewhere.merged("owl").name == "crow"


def test_moving_rejecting_and_putting_back(state):
    moved = do(state, "move", images=["c", "c"], to="crow")
    assert moved.images["c"] == Placed("crow", "move", T)
    rejected = do(moved, "reject", images=["c", "a"])
    assert rejected.rejected == ["a", "c"]
    assert do(rejected, "move", images=["a"], to="owl").rejected == ["c"]
    fresh = do(state, "move", images=["a"], to="new-003", is_fresh=True)
    assert fresh.categories["new-003"] == Category("new-003", "new")


def test_a_moved_image_stays_decided_when_its_category_is_merged_but_not_when_it_is_split(state):
    moved = do(state, "move", images=["a"], to="new-001")
    merged = do(moved, "merge", categories=["new-001", "crow"], into="crow")
    assert (merged.images["a"].action, merged.images["c"].action) == ("move", "merge")
    split = do(moved, "split", category="new-001", parts={"new-003": ["a"], "new-004": ["c", "d"]})
    assert split.images["a"].action == "split"


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("rename", {"category": "new-01", "name": "x"}, "no category 'new-01'. Did you mean 'new-001'?"),
        ("rename", {"category": "new-001", "name": "  "}, "is empty"),
        (
            "rename",
            {"category": "new-001", "name": "crow"},
            r"'crow' is the name of crow. If they are the same category: "
            r'merge\(\["new-001", "crow"\]\). If not, choose another name',
        ),
        ("rename", {"category": "new-001", "name": "new-001"}, "already has the name 'new-001'"),
        ("merge", {"categories": ["owl"], "into": "owl"}, "at least two"),
        ("move", {"images": ["zz"], "to": "owl"}, "no image 'zz'"),
        ("move", {"images": [], "to": "owl"}, "at least one image"),
        ("move", {"images": ["a"], "to": "new-002", "is_fresh": True}, "unused id"),
        ("unapprove", {"category": "owl"}, "'owl' is not approved"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(state, op, args, message):
    before = dataclasses.replace(state, images=dict(state.images), categories=dict(state.categories))
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        make_edit(state, op, args, t=T, user="me")
    assert state == before


def test_a_category_is_found_by_its_id_or_its_name(state):
    named = do(state, "rename", category="new-001", name="Tawny")
    assert [category_id(named, given) for given in ("new-001", "Tawny", "owl", "Tawn")] == [
        "new-001", "new-001", "owl", "Tawn"]  # fmt: skip


def test_a_name_that_is_the_id_of_a_renamed_category_is_said_to_be_that(state):
    named = do(state, "rename", category="new-001", name="Tawny")
    with pytest.raises(UserError, match=r"'new-001' is the id of 'Tawny'. If they are the same category"):
        do(named, "rename", category="new-002", name="new-001")


def test_a_patch_survives_json(state):
    edit = make_edit(state, "split", {"category": "new-001", "parts": {"n1": ["c"], "n2": ["d"]}}, t=T, user="me")
    assert patch_from_json(patch_to_json(edit.before)) == edit.before


class Editor:
    """Does random edits that are allowed, and remembers every one of them."""

    def __init__(self, state, seed):
        self.state, self.rng, self.log, self.n_fresh = state, np.random.default_rng(seed), [], 0

    def one_of(self, values, n=1):
        values = sorted(values)
        return [values[i] for i in self.rng.choice(len(values), size=min(n, len(values)), replace=False)]

    def fresh(self):
        self.n_fresh += 1
        return f"fresh-{self.n_fresh}"

    def random_args(self):
        live, images = self.state.live, self.state.images
        op = self.one_of(["rename", "merge", "split", "move", "reject", "approve", "unapprove", "move fresh"])[0]
        (category,) = self.one_of(live)
        if op == "rename":
            return op, {"category": category, "name": f"name {self.rng.integers(10**9)}"}
        if op == "merge":
            ids = self.one_of(live, 3)
            return op, {"categories": ids, "into": ids[0]}
        if op == "split":
            members = self.state.members(category)
            cut = int(self.rng.integers(1, max(len(members), 2)))
            first = self.one_of([category, self.fresh()])[0]
            return op, {"category": category, "parts": {first: members[:cut], self.fresh(): members[cut:]}}
        if op == "move fresh":
            return "move", {"images": self.one_of(images, 2), "to": self.fresh(), "is_fresh": True}
        if op in ("move", "reject"):
            return op, {"images": self.one_of(images, 3), **({"to": category} if op == "move" else {})}
        return op, {"category": category}

    def edit(self):
        while True:
            op, args = self.random_args()
            try:
                edit = make_edit(self.state, op, args, t=f"t{len(self.log)}", user="me")
            except UserError:
                continue
            return self.do(edit)

    def do(self, edit):
        self.log.append(edit)
        self.state = apply(self.state, edit)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_thousand_random_edits_and_a_thousand_undos_give_back_the_exact_state(seed):
    images = {f"i{i}": Placed(f"c{i % 12}") for i in range(60)}
    first = State(images, {f"c{i}": Category(f"c{i}", "known" if i < 4 else "new") for i in range(12)})
    editor = Editor(first, seed)
    states = [first]
    for _ in range(1000):
        editor.edit()
        states.append(editor.state)
    assert {edit.op for edit in editor.log} == {"rename", "merge", "split", "move", "reject", "approve", "unapprove"}
    for number in reversed(range(1000)):
        assert editor.state == states[number + 1]
        undo = make_edit(editor.state, "undo", inverse(editor.log[number], number), t="t", user="me")
        editor.do(undo)
    assert editor.state == first
    assert replay(first, editor.log) == first
    # Redo is the undo of an undo: all thousand come back.
    for number in range(1000):
        editor.do(make_edit(editor.state, "redo", inverse(editor.log[1999 - number], 0), t="t", user="me"))
    assert editor.state == states[1000]


def test_edits_are_plain_values():
    assert {field.name for field in dataclasses.fields(Edit)} == {"t", "user", "op", "args", "before"}
