"""The bisect search on ranges whose answer is known."""

from __future__ import annotations

import random

import pytest

from kvcheck.search import bisect_found as f
from kvcheck.search.bisect import bisect, next_between, steps_of
from kvcheck.search.bisect_confidence import Rate, seen
from kvcheck.search.bisect_evidence import BAD, FAIL, GOOD, PASS, SILENT, UNKNOWN, Result, Sought, choose, failed, passed, silent, weigh

RUN = {"g": passed(), "b": failed("sought"), "o": failed("other"), "u": silent("does not start")}


class Range:
    """A range written down: g good, b bad, u unknown, o another failure; `again` overrides what neighbours say at the end."""

    def __init__(self, text, again=None):
        self.text, self.again, self.asked = text, again or {}, []

    def __call__(self, question):
        self.asked.append((question.why, question.index))
        character = self.again.get(question.index) if question.why == f.AGAIN else None
        return [RUN[character or self.text[question.index]]] * question.runs

    def find(self, **options):
        return bisect(self, options.pop("keys", range(len(self.text))), **options)


def test_a_boundary_is_closed_to_neighbours_in_the_steps_that_were_promised():
    for boundary in range(1, 100):
        mine = Range("g" * boundary + "b" * (100 - boundary))
        found = mine.find()
        assert (found.outcome, found.good, found.bad) == (f.FOUND, boundary - 1, boundary)
        assert len(mine.asked) == found.questions <= steps_of(100) == 11
        assert mine.asked[:2] == [(f.END_BAD, 99), (f.END_GOOD, 0)]
        assert mine.asked[-2:] == [(f.AGAIN, boundary), (f.AGAIN, boundary - 1)]


def test_two_candidates_are_four_questions():
    assert Range("gb").find().questions == steps_of(2) == 4


def test_a_fix_is_the_same_search_from_the_other_side():
    mine = Range("bbbbbbbggg")
    found = mine.find(find="fix")
    assert (found.outcome, found.bad, found.good) == (f.FOUND, 6, 7)
    assert mine.asked[:2] == [(f.END_BAD, 0), (f.END_GOOD, 9)]


@pytest.mark.parametrize(
    ("text", "outcome", "asked"),
    [
        ("gggggggg", f.BAD_END_IS_GOOD, 1),
        ("bbbbbbbb", f.GOOD_END_IS_BAD, 2),
        ("gggggguu", f.BAD_END_UNKNOWN, 3),
        ("uuuuuuuu", f.BAD_END_UNKNOWN, 4),
        ("ubbbbbbb", f.GOOD_END_UNKNOWN, 3),
        ("uuuuuuub", f.GOOD_END_UNKNOWN, 5),
        ("oooooooo", f.GOOD_END_IS_BAD, 2),
    ],
)
def test_an_end_that_is_not_what_it_was_named_is_told_apart(text, outcome, asked):
    mine = Range(text)
    found = mine.find()
    assert (found.outcome, found.good, found.bad, len(mine.asked)) == (outcome, None, None, asked)


def test_ends_without_an_answer_are_looked_for_further_in():
    found = Range("uoggggbbbuu").find()
    assert (found.outcome, found.good, found.bad) == (f.FOUND, 5, 6)
    assert found.moved == [("bad", 10, 8), ("good", 0, 2)]


def test_two_names_of_one_candidate_are_asked_once():
    keys = [0, 1, 2, 2, 2, 5, 5, 7]
    mine = Range("gggggbbb")
    found = mine.find(keys=keys)
    assert (found.good, found.bad) == (4, 5)
    asked = [keys[index] for why, index in mine.asked if why != f.AGAIN]
    assert len(asked) == len(set(asked))


def test_ends_that_are_one_candidate_are_not_two_answers():
    mine = Range("bgggb")
    assert mine.find(keys=[9, 1, 2, 3, 9]).outcome == f.GOOD_END_IS_BAD
    assert len(mine.asked) == 1


def test_a_stretch_without_answers_is_stepped_over():
    mine = Range("g" * 400 + "u" * 200 + "g" * 300 + "b" * 100)
    found = mine.find()
    assert (found.outcome, found.good, found.bad) == (f.FOUND, 899, 900)
    assert len(mine.asked) <= steps_of(1000) + 20


def test_a_stretch_at_the_boundary_is_named_and_was_tried_whole():
    mine = Range("ggggguuoubbbbbb")
    found = mine.find()
    assert (found.outcome, found.good, found.bad, found.between, found.untried) == (f.BRACKET, 4, 9, (5, 6, 7, 8), ())
    assert found.others == {("", "other"): [7]}
    assert {index for why, index in mine.asked} >= {5, 6, 7, 8}


def test_the_search_gives_up_on_a_stretch_that_is_too_long_and_says_what_it_did_not_try():
    found = Range("g" * 20 + "u" * 200 + "b" * 20).find(unknown_limit=6)
    assert found.outcome == f.BRACKET
    tried = set(found.between) - set(found.untried)
    assert len(tried) == 6 and all(found.answers[index].kind == UNKNOWN for index in tried)


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        ({5: "g"}, f.CONTRADICTED),
        ({4: "b"}, f.CONTRADICTED),
        ({5: "u"}, f.UNCONFIRMED),
        ({4: "o"}, f.UNCONFIRMED),
        ({4: "u", 5: "g"}, f.CONTRADICTED),
    ],
)
def test_neighbours_that_answer_otherwise_the_second_time_end_the_search_without_a_boundary(again, outcome):
    found = Range("gggggbbbbb", again).find()
    assert (found.outcome, found.good, found.bad) == (outcome, 4, 5)
    assert {index: answer.kind for index, answer in found.again.items()} == {
        index: {"g": GOOD, "b": BAD, "u": UNKNOWN, "o": UNKNOWN}[again.get(index, "gb"[index == 5])] for index in (4, 5)
    }


def test_answers_that_go_back_are_told():
    # The candidate at 2 is there again at 6, under another name, behind a good one.
    mine = Range("ggbgggbbb")
    found = mine.find(keys=[0, 1, 2, 3, 4, 5, 2, 7, 8])
    assert (found.outcome, found.good, found.bad) == (f.FOUND, 5, 6)
    assert found.turns == [(2, 5)]


def test_every_question_says_what_is_likely_next_and_how_much_is_left():
    seen_questions = []
    mine = Range("g" * 700 + "b" * 300)

    def ask(question):
        seen_questions.append(question)
        return mine(question)

    bisect(ask, range(1000))
    asked = [question.index for question in seen_questions]
    for question, following in zip(seen_questions, asked[1:], strict=False):
        assert following in (*question.ahead, question.index), question
        assert len(question.ahead) <= 2
    assert [question.left for question in seen_questions][:2] == [13, 12]
    assert [question.left for question in seen_questions][-2:] == [1, 0]
    assert all(abs(question.left - (len(asked) - question.number)) <= 1 for question in seen_questions)


def test_the_middle_comes_first_then_what_is_around_it_at_growing_distance():
    tried = set()
    order = []
    while (point := next_between(0, 16, tried)) is not None:
        order.append(point)
        tried.add(point)
    assert order[:9] == [8, 9, 7, 10, 6, 12, 4, 5, 11]
    assert sorted(order) == list(range(1, 16))


def test_a_flaky_fault_is_found_with_enough_runs_and_never_called_good_by_fewer():
    drawn = random.Random(3)
    right = 0
    for _ in range(200):
        boundary = drawn.randrange(1, 40)

        def ask(question, boundary=boundary):
            runs = []
            while len(runs) < question.runs:
                runs.append(failed("x") if question.index >= boundary and drawn.random() < 0.4 else passed())
                if question.enough(runs):
                    break
            if question.why == f.BETWEEN and question.index < boundary:
                assert len(runs) == question.runs == 12
            return runs

        found = bisect(ask, range(40), runs=12)
        assert found.outcome in (f.FOUND, f.CONTRADICTED)
        right += (found.outcome, found.bad) == (f.FOUND, boundary)
        assert found.rate.runs == 12
    assert right >= 190  # a false good answer has a chance of 0.6 ** 12 = 0.002 a candidate


def test_confidence_is_one_minus_the_chance_to_miss_it_every_time():
    assert seen(0.5, 3) == 0.875
    rate = Rate(7, 10)
    assert rate.estimate == 0.7 and round(rate.at_least, 4) == 0.3934
    assert rate.needed() == 3 and Rate(10, 10).needed() == 1 and Rate(0, 10).needed() is None
    assert round(Rate(10, 10).at_least, 4) == 0.7411
    assert Rate(1, 1).confidence(1) == 1 and round(Rate(1, 1).worst(1), 3) == 0.05


def run(**results):
    letters = {"p": Result(PASS), "-": Result(SILENT, reason="unsupported")}
    return {probe: letters.get(how) or Result(FAIL, how) for probe, how in results.items()}


def test_the_fault_is_what_fails_at_one_end_and_passes_at_the_other():
    assert choose([run(a="y", b="x", c="x")], [run(a="y", b="p", c="p")]) == Sought("x", frozenset("bc"))
    assert choose([run(a="x")], [run(a="x")]) is None
    assert choose([run(a="x")], [run(a="-")]) is None
    often = [run(a="p", b="x"), run(a="z", b="x"), run(a="p", b="p")]
    assert choose(often, [run(a="p", b="p")]) == Sought("x", frozenset("b"))


@pytest.mark.parametrize(
    ("runs", "wanted", "kind", "reason", "others"),
    [
        ([run(a="x", b="p", c="p")], 1, BAD, "", 0),
        ([run(a="p", b="p", c="z")], 1, GOOD, "", 1),
        ([run(a="z", b="p", c="p")], 1, UNKNOWN, "another way", 1),
        ([run(a="-", b="-", c="p")], 1, UNKNOWN, "unsupported", 0),
        ([run(a="p", b="-", c="p")], 1, GOOD, "1 of 2 cases", 0),
        ([run(a="p", b="p", c="p")], 3, UNKNOWN, "only 1 of 3", 0),
        ([run(a="p", b="p", c="p"), run(a="-", b="-", c="-")], 3, UNKNOWN, "run 2 of 3: unsupported", 0),
        ([run(a="p", b="p", c="p"), run(a="x", b="p", c="p")], 3, BAD, "", 0),
        ([run(c="x", b="p", a="p")], 1, GOOD, "", 1),
    ],
)
def test_only_the_probes_of_the_fault_decide(runs, wanted, kind, reason, others):
    answer = weigh(runs, Sought("x", frozenset("ab")), wanted)
    assert (answer.kind, len(answer.others)) == (kind, others)
    assert reason in answer.reason and bool(reason) == bool(answer.reason)


def test_what_fails_at_both_ends_is_nobody_s_news():
    always = {("c", "z")}
    assert weigh([run(a="p", c="z")], Sought("x", frozenset("a")), 1, always).others == ()


@pytest.mark.parametrize("options", [{"keys": [1]}, {"find": "change"}, {"runs": 0}])
def test_a_search_that_cannot_be_is_refused(options):
    with pytest.raises(ValueError):
        Range("gb").find(**options)
