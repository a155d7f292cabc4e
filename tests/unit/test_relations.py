"""Relations that need no oracle: honest kernels keep them all, and each has a fault that nothing else sees."""

from __future__ import annotations

import pytest

from kvcheck.agent import specs

SMALL = {
    "block_table": dict(context_len=[3000, 0], block_table="wide_garbage"),
    "index_k_cache_gather": dict(batch=3, context_len=[130, 0, 17], head_dim=64, layout="shuffled", block_table="shared_prefix"),
    "index_k_cache_write": dict(tokens=40, head_dim=64, cache="pitched", scale_format="fp32"),
    "mla_decode": dict(batch=3, context_len=[70, 0, 17], head_dim=96, head_dim_v=64, page_size=16, next_n=2, num_heads=4),
    "mla_metadata": dict(batch=3, context_len=[300, 0, 5], page_size=16),
    "mqa_logits": dict(rows=5, tokens=100, num_heads=8),
    "paged_mqa_logits": dict(batch=2, context_len=[70, 33], num_heads=8, head_dim=64, next_n=2, topk=16, block_size=16),
    "topk_per_row": dict(batch=3, context_len=[300, 0, 65], next_n=2, topk=64, values="ties"),
    "topk_slots": dict(rows=5, topk=64, context_len=300, block_stride=80),
}
"""A case of every op that has every relation of it to check."""

LOGITS = dict(batch=2, context_len=[70, 33], num_heads=8, head_dim=64, topk=16, block_size=16)
FAULTS = {
    "differs_when_repeated": ("paged_mqa_logits", LOGITS),
    "head_dropped_at_block_size": ("paged_mqa_logits", LOGITS),
    "last_token_lost_beside_padding": ("paged_mqa_logits", LOGITS),
    "lse_base_2_unsplit": ("mla_decode", SMALL["mla_decode"]),
    "other_order_when_strided": ("paged_mqa_logits", LOGITS),
    "page_id_in_16_bits": ("paged_mqa_logits", {**LOGITS, "block_size": 4}),
    "pages_in_pool_order": ("mla_decode", SMALL["mla_decode"]),
    "prefill_scales_rounded": ("paged_mqa_logits", LOGITS),
    "scale_of_batch": ("paged_mqa_logits", LOGITS),
}
VALUES = {"head_dropped_at_block_size": "=64"}


def lines(row):
    return {line["name"]: line for line in row["relations"]}


@pytest.fixture
def related(judged):
    """`related(op, provider, names, **params)`: the row of a case with relations."""
    return lambda op, provider, names, **params: judged(op, provider, request={"relations": list(names)}, **params)


@pytest.mark.parametrize("op", sorted(SMALL))
def test_the_honest_kernel_keeps_every_relation(related, op):
    row = related(op, "torch_eager", specs.relations(op), **SMALL[op])
    assert row["verdict"] == "pass", row["message"]
    assert [name for name, line in lines(row).items() if not line["calls"] or line["notes"]] == []
    assert {f"relation_{name}" for name in specs.relations(op)} <= set(row["metrics"])


def test_every_relation_has_an_op_and_a_fault_of_its_own():
    ops = {name for op in specs.names("ops") for name in specs.relations(op)}
    faults = {name: specs.load("faults", name).data.get("relation") for name in specs.names("faults")}
    assert ops == set(specs.names("relations")) == {relation for relation in faults.values() if relation}
    assert set(FAULTS) == {name for name, relation in faults.items() if relation}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_is_seen_by_its_relation_and_by_nothing_else(related, fault):
    op, params = FAULTS[fault]
    mine, provider = specs.load("faults", fault).data["relation"], f"fault:{fault}{VALUES.get(fault, '')}"
    bad = related(op, provider, [mine], **params)
    assert (bad["verdict"], bad["check"]) == ("nondeterministic" if mine == "repeat" else "metamorphic", mine), bad["message"]
    assert bad["bad_count"] and bad["first_bad"]["expected"] != bad["first_bad"]["actual"] and " first at [" in bad["message"]
    others = [name for name in specs.relations(op) if name != mine]
    rest = related(op, provider, others, **params)
    if mine == "repeat":  # whatever is compared with it differs: that it does not repeat itself is said all the same
        assert (rest["verdict"], rest["check"]) == ("nondeterministic", "repeat")
    else:
        assert rest["verdict"] == "pass", rest["message"]
    assert related(op, provider, [], **params)["verdict"] == "pass"


def test_the_honest_triton_kernels_keep_them(interpreted):
    for op in ("mla_decode", "topk_slots"):
        (row,) = interpreted(op, [SMALL[op]], relations=list(specs.relations(op)))
        assert row["verdict"] == "pass", (op, row["message"])
        assert [line["name"] for line in row["relations"] if line["calls"]] == list(specs.relations(op))


def test_a_transformed_call_that_is_refused_is_noted_and_not_blamed(related, tmp_path):
    file = tmp_path / "choosy.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\n"
        "def paged_mqa_logits(**a):\n"
        "    if a['block_size'] != 16:\n        raise Unsupported('pages of 16 only')\n"
        "    torch_eager.paged_mqa_logits(**a)\n"
    )
    row = related("paged_mqa_logits", str(file), ["block_size", "decode_against_prefill"], **LOGITS)
    assert row["verdict"] == "pass" and "relation_block_size" not in row["metrics"]
    assert all("pages of 16 only" in note for note in lines(row)["block_size"]["notes"])
    assert "does not implement mqa_logits" in lines(row)["decode_against_prefill"]["notes"][0]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("if a['block_size'] == 64: raise RuntimeError('boom')", "ended in crash: RuntimeError: boom"),
        ("if a['block_size'] == 64: a['block_table'].zero_()", "block_table was changed"),
        ("if a['block_size'] == 64: a['out'].as_strided((1,), (1,), a['out'].storage_offset() + a['out'].numel()).zero_()", "overwritten"),
    ],
)
def test_what_a_transformed_call_does_besides_is_seen(related, tmp_path, body, text):
    file = tmp_path / f"odd_{abs(hash(body))}.py"
    file.write_text(
        f"from kvcheck.agent.providers import torch_eager\ndef paged_mqa_logits(**a):\n    torch_eager.paged_mqa_logits(**a)\n    {body}\n"
    )
    row = related("paged_mqa_logits", str(file), ["block_size"], **LOGITS)
    assert (row["verdict"], row["check"]) == ("metamorphic", "block_size") and text in row["message"], row["message"]


def test_one_request_has_no_neighbour_and_one_page_no_order(related):
    row = related("paged_mqa_logits", "torch_eager", ["batch_neighbour"], **{**LOGITS, "batch": 1, "context_len": 5})
    assert row["verdict"] == "pass" and lines(row)["batch_neighbour"]["notes"] == ["the case has nothing to transform"]
    assert "relation_batch_neighbour" not in row["metrics"]


def test_a_case_that_fails_already_is_not_transformed(related):
    row = related("paged_mqa_logits", "fault:head_dropped", ["block_size"], **LOGITS)
    assert row["verdict"] == "mismatch" and "relations" not in row


FILE = "schema: 1\nname: mine\nop: {op}\nfixed: {{batch: 2, context_len: 70}}\nproviders: [torch_eager]\nrelations: {relations}\n"


@pytest.mark.parametrize(
    ("op", "relations", "texts"),
    [
        ("paged_mqa_logits", "[page_permutaton]", ["relations[0]", "'page_permutaton'", "page_permutation"]),
        ("paged_mqa_logits", "al", ["relations: expected all", "nearest: all"]),
        ("paged_mqa_logits", "[split_count]", ["relations of paged_mqa_logits", "'split_count'"]),
        ("mla_decode", "[page_permutation, 3]", ["relations[1]", "the name of a relation"]),
        ("mla_decode", "{split_count: 2}", ["relations: expected all, or a list of relations"]),
    ],
)
def test_wrong_names_in_a_file_are_usage_errors(tmp_path, op, relations, texts):
    from kvcheck.cases.errors import CaseFileError
    from kvcheck.cases.plan import plan

    file = tmp_path / "mine.yaml"
    file.write_text(FILE.format(op=op, relations=relations))
    with pytest.raises(CaseFileError) as caught:
        plan([str(file)])
    assert len(caught.value.faults) == 1 and all(text in str(caught.value) for text in texts), str(caught.value)


def test_names_reach_the_agent_in_the_ops_order(tmp_path):
    from kvcheck.cases.plan import plan

    file = tmp_path / "mine.yaml"
    for written, wanted in (("all", list(specs.relations("paged_mqa_logits"))), ("[block_size, repeat]", ["repeat", "block_size"])):
        file.write_text(FILE.format(op="paged_mqa_logits", relations=written))
        assert plan([str(file)]).cases[0].request()["relations"] == wanted


def test_every_op_is_run_with_every_relation_by_the_built_in_cases():
    from kvcheck.cases.plan import plan

    asked = {case.op: set(case.relations) for case in plan(["relations"]).cases}
    assert asked == {op: set(specs.relations(op)) for op in specs.names("ops")}


def test_the_report_says_what_was_checked_and_what_was_refused():
    from kvcheck.report.words import relations

    entry = {"name": "block_size", "calls": 1, "differing": 0, "notes": ["pages of 1: refused: pages of 16 only"]}
    text = relations.sentence([{"relations": [entry, {"name": "repeat", "calls": 0, "notes": []}]}, {"relations": []}, {}])
    assert "in 1 case " in text and "block_size 1." in text and "pages of 16 only" in text and "repeat" not in text
    assert relations.sentence([{}, {"verdict": "mismatch"}]) is None


def test_what_was_checked_reaches_run_json():
    from kvcheck.flow import book

    assert "relations" in book.ROW_KEYS
