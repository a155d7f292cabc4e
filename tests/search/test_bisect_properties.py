"""The bisect search against brute force, on any range."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.search import bisect_found as f
from kvcheck.search.bisect import bisect, steps_of
from kvcheck.search.bisect_evidence import BAD, GOOD, UNKNOWN, failed, passed, silent

RUN = {"g": passed(), "b": failed("sought"), "o": failed("other"), "u": silent("does not start")}
KIND = {"g": GOOD, "b": BAD, "o": UNKNOWN, "u": UNKNOWN}


def search(text, **options):
    """What is found in a range written down, and what was asked for it."""
    asked = []

    def ask(question):
        asked.append((question.index, question.why == f.AGAIN))
        return [RUN[text[question.index]]]

    return bisect(ask, options.pop("keys", range(len(text))), **options), asked


@st.composite
def monotone(draw, holes="uo"):
    """Good ones, then bad ones, and what has no answer anywhere but at the ends."""
    good, bad = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    text = list("g" * good + "b" * bad)
    for place in draw(st.lists(st.integers(1, max(len(text) - 2, 1)), max_size=40)):
        if 0 < place < len(text) - 1 and holes:
            text[place] = draw(st.sampled_from(holes))
    return "".join(text)


@settings(deadline=None, max_examples=500)
@given(monotone())
def test_a_range_with_one_change_gives_what_looking_at_everything_gives(text):
    found, asked = search(text)
    low = text.rindex("g")
    high = text.index("b")
    assert (found.good, found.bad) == (low, high)
    assert found.between == tuple(range(low + 1, high)) and found.untried == ()
    assert found.outcome == (f.FOUND if high == low + 1 else f.BRACKET)
    assert found.turns == []
    assert len(asked) == len(set(asked)) == found.questions


@settings(deadline=None, max_examples=300)
@given(monotone(holes=""))
def test_without_unknown_answers_the_steps_are_those_of_halving(text):
    found, asked = search(text)
    assert found.outcome == f.FOUND
    assert len(asked) <= steps_of(len(text))


@settings(deadline=None, max_examples=500)
@given(st.text("gbuo", min_size=2, max_size=60), st.none() | st.integers(1, 8))
def test_nothing_untrue_is_said_of_any_range(text, limit):
    found, asked = search(text, unknown_limit=limit)
    assert len(asked) == len(set(asked)) <= len(text) + 2
    tried = {index for index, again in asked if not again}
    sought = found.sought.identity if found.sought else None
    for index, answer in found.answers.items():
        assert index in tried
        if sought == "sought":
            assert answer.kind == KIND[text[index]]
    if found.good is None:
        assert found.outcome in (f.BAD_END_IS_GOOD, f.GOOD_END_IS_BAD, f.BAD_END_UNKNOWN, f.GOOD_END_UNKNOWN)
        if found.outcome == f.BAD_END_IS_GOOD:
            assert text[-1] == "g"
        if found.outcome == f.GOOD_END_IS_BAD:
            assert text[0] in "bo"
        return
    bad = "b" if sought == "sought" else "o"
    assert text[found.good] == "g" and text[found.bad] == bad
    assert found.between == tuple(range(found.good + 1, found.bad))
    assert not any(text[index] in ("g", bad) for index in found.between if index not in found.untried)
    assert found.outcome == (f.BRACKET if found.between else f.FOUND)
    assert bool(found.untried) <= (limit is not None)


@settings(deadline=None, max_examples=300)
@given(st.text("gbuo", min_size=2, max_size=40))
def test_looking_for_a_fix_is_looking_for_a_regression_backwards(text):
    forth, _ = search(text)
    back, _ = search(text[::-1], find="fix")
    last = len(text) - 1
    assert (back.outcome, back.questions) == (forth.outcome, forth.questions)
    for there, here in ((forth.good, back.good), (forth.bad, back.bad)):
        assert there is None and here is None or there + here == last
    assert {last - index: answer for index, answer in back.answers.items()} == forth.answers


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(0, 8), min_size=2, max_size=30), st.lists(st.sampled_from("gbuo"), min_size=9, max_size=9))
def test_names_of_one_candidate_are_asked_once_and_answer_alike(keys, letters):
    text = "".join(letters[key] for key in keys)
    found, asked = search(text, keys=keys)
    once = [keys[index] for index, again in asked if not again]
    assert len(once) == len(set(once))
    for i, answer in found.answers.items():
        assert all(found.answers[j] == answer for j in range(len(keys)) if keys[j] == keys[i])
    if found.turns:
        ((bad, good),) = found.turns
        assert found.answers[bad].kind == BAD and found.answers[good].kind == GOOD and bad < good
    if found.good is not None:
        assert found.good < found.bad and keys[found.good] != keys[found.bad]
