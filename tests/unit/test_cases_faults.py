"""Every fault of a case file: one line each, with file, line, key, expected, got and the nearest valid name, all at once."""

from __future__ import annotations

import textwrap

import pytest

from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load

HEAD = "schema: 1\nname: t\nop: paged_mqa_logits\nproviders: [triton]\n"


@pytest.fixture
def faults(tmp_path):
    """The faults of a text, the path cut off."""

    def find(text: str, head: str = HEAD) -> list[str]:
        path = tmp_path / "f.yaml"
        path.write_text(head + textwrap.dedent(text))
        try:
            load(path)
        except CaseFileError as error:
            found = error
        else:
            return []
        assert str(found).splitlines() == [str(fault) for fault in found.faults]
        return [line.replace(str(path), "f.yaml") for line in str(found).splitlines()]

    return find


def test_a_sound_file_has_none(faults):
    assert faults("axes: {context_len: [1, 2k, 1<<12], block_size: [1, 16]}\n") == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("axis: {}\n", "f.yaml:5: axis: expected one of schema, name, op, why, "),
        ("axes: {contxt_len: [1]}\n", "got 'contxt_len'; nearest: context_len"),
        ("fixed: {num_head: 3}\n", "f.yaml:5: fixed.num_head: expected an axis of paged_mqa_logits: batch, "),
        ("axes: {block_table: [shufled]}\n", "got 'shufled'; nearest: shuffled"),
        ("inputs: {values: gausian}\n", "f.yaml:5: inputs.values: expected one of gaussian, "),
        ("fixed: {block_size: 0}\n", "f.yaml:5: fixed.block_size: expected an integer from 1 to 65536, got 0; nearest: 1"),
        ("fixed: {num_heads: -3}\n", "fixed.num_heads: expected an integer from 1 to 1024, got -3; nearest: 1"),
        ("fixed: {num_heads: 12.5}\n", "got 12.5; nearest: 12"),
        ("fixed: {num_heads: 1000000}\n", "nearest: 1024"),
        ("fixed: {head_dim: 100}\n", "a multiple of 16, got 100; nearest: 96"),
        ("fixed: {batch: true}\n", "fixed.batch: expected an integer from 1 to 65536, got true"),
        ("fixed: {batch: .nan}\n", "got nan"),
        ("fixed: {batch: .inf}\n", "got inf"),
        ("fixed: {batch: null}\n", "got null"),
        ("fixed: {batch: many}\n", "got 'many'"),
        ("fixed: {batch: {a: 1}}\n", "got {'a': 1}"),
        ("fixed: {batch: [1, 2]}\n", "one value here; lists belong under axes"),
        (f"fixed: {{batch: {'9' * 6000}}}\n", "fixed.batch: expected an integer from 1 to 65536, got '999"),
        ("axes: {batch: 3}\n", "axes.batch: expected a list of values, got 3"),
        ("axes: [batch]\n", "axes: expected a list of values for each axis named, got ['batch']"),
        ("axes: {batch: []}\n", "axes.batch: expected at least one value: the product is empty, got an empty list"),
        ("axes: {batch: [1, 2, 1]}\n", "axes.batch[2]: expected each value once (first on line 5), got 1 again on line 5"),
        ("axes: {topk: [2k, 2048]}\n", "got 2048 again on line 5"),
        (
            "axes:\n  batch: [1]\n  batch: [2]\n",
            "f.yaml:7: axes.batch: expected each key once (first on line 6), got batch again on line 7",
        ),
        (
            "axes: {batch: [1]}\nfixed: {batch: 2}\n",
            "f.yaml:6: fixed.batch: expected each axis in one place (first in axes.batch on line 5)",
        ),
        ("inputs: {values: ties}\naxes: {values: [ties]}\n", "f.yaml:6: axes.values: expected each axis in one place"),
        ("zip: {batch: [1, 2], topk: [1]}\n", "f.yaml:5: zip: expected zipped lists of equal length, got batch has 2 (line 5), topk has 1"),
        ("zip: [{batch: [1, 2]}, {batch: [1, 2]}]\n", "first in zip[0].batch"),
        ("zip: {batch: [], topk: []}\n", "the product is empty"),
        ("zip: {batch: [1, 1], topk: [3, 3]}\n", "each zipped point once"),
        ("zip: 3\n", "zip: expected axes with lists of equal length"),
        (
            "axes: {batch: [1, 2]}\nexclude: [{batch: 3}]\n",
            "f.yaml:6: exclude[0].batch: expected a value of the sweep: 1, 2, got 3; nearest: 2",
        ),
        ("exclude: [{bach: 3}]\n", "exclude[0].bach: expected an axis of paged_mqa_logits"),
        ("exclude: [{}]\n", "exclude[0]: expected axis: value, got an empty entry"),
        ("exclude: [4]\n", "exclude[0]: expected a rule: axis: value or values, got 4"),
        ("exclude: {batch: 3}\n", "exclude: expected a list of rules"),
        (
            "axes: {batch: [1, 2]}\nexclude: [{batch: [1, 2]}]\n",
            "expected at least one point, got an empty product: all 2 points are excluded",
        ),
        (
            "zip: {batch: [1, 2], topk: [3, 4]}\nexclude: [{batch: 1, topk: 4}]\n",
            "f.yaml:6: exclude[0]: expected a rule that matches at least one point",
        ),
        ("include: [{btch: 3}]\n", "include[0].btch: expected an axis of paged_mqa_logits"),
        ("include: [{batch: 0}]\n", "include[0].batch: expected an integer from 1 to 65536, got 0; nearest: 1"),
        ("include: [{block_table: shared_prefix}]\n", "include[0]: expected at least 2, got batch: 1"),
        ("coverage: pairwis\n", "coverage: expected full, pairwise or sample: N, got 'pairwis'; nearest: pairwise"),
        ("coverage: {sample: 0}\n", "coverage: expected full, pairwise or sample: N"),
        ("coverage: full\nsample: 3\n", "f.yaml:6: sample: expected coverage or sample, not both (coverage on line 5)"),
        ("seed: -1\n", "seed: expected a whole number from 0"),
        ("seed: true\n", "seed: expected a whole number from 0"),
        ("repeat: 0\n", "repeat: expected a whole number from 1"),
        ("run_unsupported: maybe\n", "run_unsupported: expected true or false, got 'maybe'"),
        ("precision: hoper_wgmma_fp8\n", "got 'hoper_wgmma_fp8'; nearest: hopper_wgmma_fp8"),
        ("precision: fp32_any+u_x=3\n", "precision: expected probe, or one of fp32_any, "),
        ("threshold: {axis: block_table, range: [1, 2]}\n", "threshold.axis: expected an ordered axis: batch, "),
        ("threshold: {axis: contextlen, range: [1, 2]}\n", "threshold.axis: expected an axis of paged_mqa_logits"),
        ("threshold: {axis: context_len}\n", "threshold.range: expected [lowest, highest] of the axis, got no such key"),
        ("threshold: {axis: context_len, range: [5, 5]}\n", "threshold.range: expected [lowest, highest], lowest below highest"),
        ("threshold: {axis: context_len, range: [-1, 5]}\n", "threshold.range[0]: expected "),
        ("threshold: {axis: context_len, range: [1, 1<<40]}\n", "threshold.range[1]: expected "),
        ("threshold: {axis: context_len, range: [1, [5]]}\n", "threshold.range[1]: expected a whole number"),
        ("threshold: {axis: context_len, range: [1, .nan]}\n", "threshold.range[1]: expected "),
        ("threshold: {axis: context_len, range: [1, 5], at: {context_len: 3}}\n", "which the threshold walks along"),
        ("threshold: {axis: context_len, range: [1, 5], at: {batch: 0}}\n", "threshold.at.batch: expected an integer from 1"),
        ("threshold: {axis: context_len, range: [1, 5], et: {}}\n", "threshold.et: expected one of axis, range, at, got et; nearest: at"),
        (
            "fixed: {max_model_len: 512, context_len: 5}\nthreshold: {axis: context_len, range: [1, 1k]}\n",
            "f.yaml:6: threshold: expected at most max_model_len (512)",
        ),
    ],
)
def test_one_fault(faults, text, fault):
    found = faults(text)
    assert len(found) == 1, found
    assert fault in found[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("fixed: {context_len: 300, max_model_len: 256}\n", "f.yaml:5: fixed.context_len: expected at most max_model_len (256), got 300"),
        ("fixed: {context_len: [5, 6, 7], batch: 2}\n", "expected a list of 2, one entry a request, got 3 entries"),
        ("fixed: {context_len: [[5, 6], [7, 8]], batch: 2, next_n: 3}\n", "expected a list of 3, one length a query token, got [5, 6]"),
        ("fixed: {context_len: [[5, 6], 7], batch: 2, next_n: 2}\n", "either a length a request or a list of next_n lengths each"),
        ("fixed: {block_table: shared_prefix}\n", "batch: expected at least 2, got 1"),
        ("fixed: {block_table: interleaved, batch: 1}\n", "f.yaml:5: fixed.batch: expected at least 2, got 1"),
        ("fixed: {num_blocks: 10, context_len: 100, block_size: 4}\n", "fixed.num_blocks: expected at least 25 pages, got 10"),
        ("fixed: {values: beacon_slot, num_heads: 4}\n", "fixed.num_heads: expected at least 5, got 4"),
    ],
)
def test_an_impossible_combination_names_axes_and_lines(faults, text, fault):
    found = faults(text)
    assert len(found) == 1, found
    assert fault in found[0]
    assert "line 5" in found[0] or found[0].startswith("f.yaml:5:")


def test_an_impossible_pair_of_a_sweep_is_a_fault_until_it_is_excluded(faults):
    sweep = "axes:\n  batch: [1, 2]\n  block_table: [shuffled, shared_prefix, interleaved]\ncoverage: sample 1\n"
    found = faults(sweep)
    assert len(found) == 1
    assert "block_table shared_prefix (line 7) with batch 1 (line 6), the first of 2 such combinations; exclude it or change" in found[0]
    assert faults(sweep + "exclude: [{batch: 1, block_table: [shared_prefix, interleaved]}]\n") == []


def test_a_swept_value_against_a_default(faults):
    found = faults("axes: {block_table: [shuffled, shared_prefix]}\n")
    assert len(found) == 1
    assert "with batch 1 (default)" in found[0]


def test_problems_of_one_axis_do_not_hide_those_of_another(faults):
    text = "axes: {context_len: [[[1, 2], [3, 4]], 5], batch: [1, 2], next_n: [1, 2], max_model_len: [2, 16]}\n"
    found = "\n".join(faults(text))
    assert "one entry a request" in found
    assert "one length a query token" in found
    assert "at most max_model_len" in found


def test_a_broken_axis_is_reported_once(faults):
    found = faults("axes: {context_len: [5000, oops]}\nfixed: {max_model_len: 256}\nexclude: [{context_len: 7}]\n")
    assert len(found) == 1
    assert "got 'oops'" in found[0]


@pytest.mark.parametrize(
    ("provider", "fault"),
    [
        ("tritn", "got 'tritn'; nearest: triton"),
        ("''", "expected the name of a provider, got ''"),
        ("", "providers: expected a list of providers, got []"),
        ("' triton'", "nearest: triton"),
        ("triton:fast", "expected triton without a variant"),
        ("aiter:stage2", "got 'stage2'; nearest: aiter:stage1"),
        ("aiter@", "a folder after @"),
        ("'fault:'", "one of the faults"),
        ("fault:wrong_pst=3", "nearest: wrong_past"),
        ("fault:wrong_past", "expected wrong_past= and a whole number, got 'wrong_past'"),
        ("fault:wrong_past=x", "got 'wrong_past=x'"),
        ("fault:wrong_between=9-3", "A-B with A not above B"),
        ("fault:head_dropped=1", "head_dropped without a value"),
        ("fault:wrong_past=3+head_dropt", "nearest: head_dropped"),
        ("3", "expected the name of a provider, got 3"),
        ("triton, triton", "expected each provider once (first on line 4), got 'triton'"),
    ],
)
def test_providers(faults, provider, fault):
    found = faults("", HEAD.replace("triton", provider))
    assert len(found) == 1, found
    assert fault in found[0]


@pytest.mark.parametrize("provider", ["./my.py", "/x/y.py", "aiter@/src/aiter", "aiter:stage1@../a", "fault:wrong_past=3+head_dropped"])
def test_providers_that_the_agent_looks_into(faults, provider):
    assert faults("", HEAD.replace("triton", f"'{provider}'")) == []


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ("name: t\nop: paged_mqa_logits\n", "schema: expected 1, the version of this format, got no such key"),
        ("schema: 2\nname: t\nop: paged_mqa_logits\n", "f.yaml:1: schema: expected 1, the version of this format, got 2"),
        ("schema: true\nname: t\nop: paged_mqa_logits\n", "got true"),
        ("schema: 1\nop: paged_mqa_logits\n", "name: expected a name of letters"),
        ("schema: 1\nname: 'a b'\nop: paged_mqa_logits\n", "f.yaml:2: name: expected a name of letters"),
        ("schema: 1\nname: t\n", "op: expected the name of an op, got no such key"),
        (
            "schema: 1\nname: t\nop: paged_mqa\n",
            "got 'paged_mqa'; nearest: paged_mqa_logits",
        ),
        ("schema: 1\nname: t\nop: [x]\n", "op: expected the name of an op, got ['x']"),
        ("schema: 1\nname: t\nop: topk_per_row\nfixed: {num_heads: 3}\n", "expected an axis of topk_per_row: batch, "),
        ("schema: 1\nname: t\nop: topk_per_row\ninputs: {values: random_bytes}\n", "got 'random_bytes'"),
    ],
)
def test_heads(faults, head, fault):
    found = faults("", head)
    assert len(found) == 1, found
    assert fault in found[0]


def test_all_faults_of_a_file_come_at_once_in_the_order_of_its_lines(faults):
    found = faults(
        """
        fixed: {block_size: 0, num_hads: 3}
        axes:
          context_len: [1, no, -4]
          values: [gausian]
        include: [3, {batch: 0}]
        exclude: [{foo: 1}]
        threshold: {axis: topk, range: [9, 3], at: {batch: x}, more: 1}
        coverage: all
        zip: [{scale: 3}, {poison: [nan], kv_dtype: [auto, e4m3fn]}]
        retry: 3
        """,
        HEAD.replace("triton", "trton"),
    )
    keys = [line.split(": ")[1] for line in found]
    lines = [int(line.split(":")[1]) for line in found]
    assert lines == sorted(lines)
    assert sorted(keys) == sorted(
        [
            "providers[0]",
            "fixed.block_size",
            "fixed.num_hads",
            "axes.context_len[1]",
            "axes.context_len[2]",
            "axes.values[0]",
            "include[0]",
            "include[1].batch",
            "exclude[0].foo",
            "threshold.range",
            "threshold.at.batch",
            "threshold.more",
            "coverage",
            "zip[0].scale",
            "zip[1]",
            "retry",
        ]
    )


def test_two_documents_need_two_names(faults):
    found = faults("---\n" + HEAD)
    assert len(found) == 1
    assert "f.yaml:7: name: expected a name for each document (line 2 has it already)" in found[0]


def test_a_file_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "missing.yaml"):
        with pytest.raises(CaseFileError, match="a readable case file"):
            load(path)
