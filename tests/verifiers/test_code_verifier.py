"""Finding code and tests, comparing outputs, and scores from these."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from jsonargparse import ArgumentParser
from sandboxes import usable

from sapo_vl.types import Prompt
from sapo_vl.verifiers.code import CodeVerifier
from sapo_vl.verifiers.code_answer import last_block, last_fenced_lines
from sapo_vl.verifiers.code_compare import same_output, same_result
from sapo_vl.verifiers.code_tests import CodeTests, read_tests
from sapo_vl.verifiers.sandbox import Sandbox

DOUBLE = "```python\nprint(2 * int(input()))\n```"


@pytest.mark.parametrize(
    ("response", "block", "official"),
    [
        ("```python\na\n```", "a", "a"),
        ("```py\na\n```\n```python3\nb\n```", "b", "b"),
        ("```python\na\n```\n```\n2\n```", "a", "2"),  # an example output after the code
        ("```\na\n```\n~~~\n```\nb\n```", "b", "b"),
        ("```python\na\n```\n```python\ncut", "a", "```python\na\n```\n"),
        ("  ```Python \na\r\nb\n  ```", "a\r\nb", "a\r\nb"),
        ("````\n```\na\n```\n````", "```\na\n```", ""),
        ("```python\na", None, None),
        ("no code", None, None),
        ("```python\n```", "", ""),
    ],
)
def test_code_in_a_response(response: str, block: str | None, official: str | None) -> None:
    assert last_block(response) == block
    if response.count("```") != 3:
        assert last_fenced_lines(response) == official


@pytest.mark.parametrize(
    ("output", "expected", "exact", "near"),
    [
        ("1 2 \n", "1 2", True, True),
        ("1\n2", "1 2", False, False),
        ("0.50", "0.5", True, True),
        ("0.30000000000000004", "0.3", False, True),
        ("50000000000000000", "50000000000000001", False, False),  # integers are exact
        ("1e3", "1000", True, True),
        ("case 0.50", "case 0.5", False, True),
        ("YES", "Yes", False, False),
        ("nan", "NaN", False, False),
        ("sNaN 1", "1 1", False, False),
        ("1e999999999999999999999999", "1.5", False, False),
        ("1e999999", "1.5e999999", False, False),
        ("-1e-12", "0.0", False, True),
        ("", "", True, True),
        ("9" * 100_000, "9" * 100_000, True, True),
        ("9" * 100_000, "9" * 99_999 + "8", False, False),
    ],
)
def test_outputs(output: str, expected: str, exact: bool, near: bool) -> None:
    assert same_output(output, expected) is exact
    assert same_output(output, expected, 1e-9) is near


@pytest.mark.parametrize(
    ("output", "expected", "exact", "near"),
    [
        ("[1, 2]", "[1,2]", True, True),
        ("[1, [2, 0.30000000000000004]]", "[1, [2, 0.3]]", False, True),
        ('{"a": 1.0}', '{"a": 1}', True, True),
        ('{"a": 1}', '{"b": 1}', False, False),
        ("1", "true", True, True),  # as in Python, and in the public runner
        ("[]", "2", False, False),
        ("", "0", False, False),
        ("1\n2", "2", False, False),  # a forged line before the real one
        ("NaN", "NaN", False, False),
        ("Infinity", "1.5", False, False),
        ("[" * 100_000, "[]", False, False),
        ("9" * 5000, "9" * 5000, True, True),
        ("9" * 5000, "0.5", False, False),
        ("9" * 2000, "0.5", False, False),
    ],
)
def test_results(output: str, expected: str, exact: bool, near: bool) -> None:
    assert same_result(output, expected) is exact
    assert same_result(output, expected, 1e-9) is near


def test_tests_from_every_place() -> None:
    tests = {"inputs": ["1"], "outputs": ["2"], "fn_name": "f"}
    wanted = CodeTests(("1",), ("2",), "f")
    assert read_tests(Prompt(reference=json.dumps(tests))) == wanted
    assert read_tests(Prompt(reference="", meta={"tests": tests})) == wanted
    assert read_tests(Prompt(reference="", meta={"tests": json.dumps(tests)})) == wanted
    public = json.dumps([{"input": "1", "output": "2", "testtype": "functional"}])
    private = [{"input": "3", "output": "4", "testtype": "functional"}]
    meta = {"public_test_cases": public, "private_test_cases": private}
    assert read_tests(Prompt(reference="", meta=meta)) == CodeTests(("1", "3"), ("2", "4"))
    meta["metadata"] = '{"func_name": "f"}'
    assert read_tests(Prompt(reference="", meta=meta)).function == "f"


@pytest.mark.parametrize(
    ("reference", "meta", "why"),
    [
        ("no json", {}, "no JSON"),
        ("[]", {}, "must be an object"),
        ('{"inputs": ["1"], "outputs": []}', {}, "1 inputs but 0 outputs"),
        ('{"inputs": [], "outputs": []}', {}, "no tests"),
        ('{"inputs": [1], "outputs": [2]}', {}, "lists of strings"),
        ('{"inputs": ["1"], "outputs": ["2"], "fn_name": 3}', {}, "fn_name"),
        ('{"inputs": ["a"], "outputs": ["2"], "fn_name": "f"}', {}, "'a' is no JSON"),
        ("", {"private_test_cases": "eJxrYJ0AAA=="}, "pickled"),
        ("", {"public_test_cases": "[5]"}, "input and output"),
    ],
)
def test_unusable_tests_are_named(reference: str, meta: dict[str, Any], why: str) -> None:
    prompt = Prompt(reference=reference, meta=meta)
    problem = CodeVerifier().check_reference(prompt)
    assert problem is not None
    assert why in problem
    assert CodeVerifier()(prompt, DOUBLE).status == "unparsable_reference"


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return usable(Sandbox(seconds=2, memory_mb=256))


def prompt(*pairs: tuple[str, str], function: str | None = None) -> Prompt:
    inputs, outputs = zip(*pairs, strict=True)
    tests = {"inputs": list(inputs), "outputs": list(outputs), "fn_name": function}
    return Prompt(reference=json.dumps(tests))


def test_all_or_the_fraction(sandbox: Sandbox) -> None:
    three = prompt(("1", "2"), ("2", "5"), ("3", "6"))
    strict = CodeVerifier(sandbox=sandbox)(three, DOUBLE)
    assert (strict.score, strict.status) == (0, "ok")
    assert strict.reason.startswith("1 of 3 tests pass; test 2: the output differs")
    assert CodeVerifier(sandbox=sandbox, fraction=True)(three, DOUBLE).score == pytest.approx(2 / 3)
    assert CodeVerifier(sandbox=sandbox)(prompt(("1", "2")), DOUBLE).score == 1


def test_the_time_of_all_tests_is_bounded(sandbox: Sandbox) -> None:
    rule = CodeVerifier(sandbox=sandbox, fraction=True, total_seconds=1)
    slow = "```python\nimport time; time.sleep(0.7); print(1)\n```"
    verdict = rule(prompt(*[("", "1")] * 20), slow)
    assert 0 < verdict.score <= 0.1


def test_a_function_with_several_arguments(sandbox: Sandbox) -> None:
    code = "```python\nclass Solution:\n    def add(self, a: List[int], b: int):\n"
    code += "        return tuple(x + b for x in a)\n```"
    rule = CodeVerifier(sandbox=sandbox)
    assert rule(prompt(("[1, 2]\n3", "[4, 5]"), function="add"), code).score == 1
    bare = "```python\ndef add(a, b):\n    return Counter(a)[b] + inf\n```"
    assert rule(prompt(("[1, 2]\n3", "Infinity"), function="add"), bare).score == 1


def test_no_code_is_no_answer() -> None:
    for response in ("", "no code", "```python\nprint(1)", "```python\n```"):
        verdict = CodeVerifier()(prompt(("1", "2")), response)
        assert (verdict.score, verdict.status, verdict.extracted) == (0, "no_answer", None)
    thinking = CodeVerifier(thinking=True)
    assert thinking(prompt(("1", "2")), DOUBLE).status == "no_answer"
    long = f"```python\n{'#' * 200_000}\n```"
    assert "over" in CodeVerifier()(prompt(("1", "2")), long).reason


def test_settings_from_yaml_and_through_pickle() -> None:
    parser = ArgumentParser()
    parser.add_argument("--verifier", type=CodeVerifier)
    given = {"fraction": True, "sandbox": {"isolation": "process", "seconds": 3}}
    parsed = parser.parse_object(
        {"verifier": {"class_path": "sapo_vl.verifiers.code.CodeVerifier", "init_args": given}}
    )
    rule = parser.instantiate_classes(parsed).verifier
    assert rule == CodeVerifier(fraction=True, sandbox=Sandbox(isolation="process", seconds=3))
    assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize("wrong", [{"rel_tol": 1}, {"total_seconds": 0}])
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CodeVerifier(**wrong)
