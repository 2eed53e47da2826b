"""Public sets without pictures, in exactly the layout their authors publish."""

import json

import pytest
from published import jsonl, packed, parquet
from published_prompts import fault, prompts, text_of


@pytest.mark.parametrize(
    ("name", "row", "answer"),
    [
        (
            "aime24",
            {
                "id": 60,
                "problem": "P",
                "solution": "S",
                "answer": "204",
                "url": "u",
                "question": "P",
            },
            "204",
        ),
        ("aime25", {"problem": "P", "answer": "70", "id": "0"}, "70"),
        (
            "aime25",
            {"id": "aime25-0", "problem": "P", "expected_answer": "70", "reference_solution": "S"},
            "70",
        ),
        (
            "aime25",
            {"problem_idx": 1, "problem": "P", "answer": 70, "problem_type": ["Algebra"]},
            "70",
        ),
        (
            "math500",
            {
                "problem": "P",
                "solution": "S",
                "answer": r"\frac{1}{2}",
                "subject": "Algebra",
                "level": 1,
                "unique_id": "test/algebra/1.json",
            },
            r"\frac{1}{2}",
        ),
        ("gsm8k", {"question": "P", "answer": "3 + 4 = <<3+4=7>>7\n#### 7"}, "7"),
        ("gsm8k", {"problem": "P", "solution": "S", "answer": "18"}, "18"),
        ("amc23", {"id": 0, "problem": "P", "answer": 27.0, "url": "u", "question": "P"}, "27.0"),
    ],
)
def test_text_mathematics(tmp_path, name, row, answer):
    (prompt,) = prompts(name, jsonl(tmp_path / "a.jsonl", [row]), tmp_path)
    assert (prompt.reference, text_of(prompt), prompt.images) == (answer, "P", ())


def test_zebralogic(tmp_path):
    row = {
        "id": "lgp-test-2x2-1",
        "size": "2*2",
        "puzzle": "There are 2 houses.",
        "solution": {
            "header": ["House", "Name", "Drink"],
            "rows": [["1", "Eric", "tea"], ["2", "Peter", "milk"]],
        },
        "created_at": "2024-07-03",
    }
    (prompt,) = prompts("zebralogic", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert json.loads(prompt.reference) == {
        "House 1": {"Name": "Eric", "Drink": "tea"},
        "House 2": {"Name": "Peter", "Drink": "milk"},
    }
    assert text_of(prompt) == "There are 2 houses."
    masked = {**row, "solution": {"header": ["House", "Name"], "rows": [["___", "___"]]}}
    assert "masked" in fault("zebralogic", parquet(tmp_path / "b.parquet", [masked]))


def test_livecodebench(tmp_path):
    public = [{"input": "1", "output": "2", "testtype": "functional"}]
    private = [{"input": "3", "output": "4", "testtype": "functional"}]
    row = {
        "question_title": "Add",
        "question_content": "Add one.",
        "platform": "leetcode",
        "question_id": "abc_1",
        "contest_id": "abc",
        "contest_date": "2025-01-04T00:00:00",
        "starter_code": "class Solution:",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(json.dumps(private)),
        "metadata": '{"func_name": "add"}',
    }
    path = jsonl(tmp_path / "test6.jsonl", [row])
    (prompt,) = prompts("livecodebench", path, tmp_path)
    assert json.loads(prompt.reference) == {
        "inputs": ["1", "3"],
        "outputs": ["2", "4"],
        "fn_name": "add",
    }
    assert text_of(prompt).startswith("Add one.\n\nUse this starter code")
    assert prompt.meta["contest_date"] == "2025-01-04T00:00:00"
    assert not {"private_test_cases", "public_test_cases"} & set(prompt.meta)
    assert prompt.key.endswith("#abc_1")
