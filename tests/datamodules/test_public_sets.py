"""Each public set in exactly the layout its authors publish, made by hand."""

import json
import random

import pytest
from published import embedded, jsonl, parquet, picture, text64, tsv
from strict_sets import strict_sets
from test_livecodebench import packed

from datamodules.making import make_shards
from datamodules.samples import read_sample
from datamodules.shards import ShardIndex, check_shards
from datamodules.sources.catalogue import SOURCES, Request, source_sets
from datamodules.sources.public import PUBLIC_SETS
from datamodules.sources.rows import Row, RowError
from datamodules.sources.table import NotWanted, to_sample
from sapo_vl.verifiers import VERIFIERS


def prompts(name, data, tmp_path, **request):
    (one,) = source_sets(name, Request(data=data, **request))
    (made,) = make_shards(one, tmp_path / "out")
    assert check_shards(tmp_path / "out")["ok"]
    assert made.manifest["licence"]
    index = ShardIndex([str(path) for path in made.paths])
    found = [read_sample(index.read(i), key=index.keys[i]) for i in range(len(index))]
    for prompt in found:
        rule = VERIFIERS["choice" if prompt.options else one.described.verifier]()
        assert rule.check_reference(prompt) is None
    return found


def fault(name, data):
    ((_, samples),) = strict_sets(name, Request(data=data))
    with pytest.raises(ValueError, match=r"row|line|entry") as caught:
        list(samples)
    return str(caught.value)


def text_of(prompt):
    content = prompt.messages[-1]["content"]
    return "".join(part.get("text", "[image]") for part in content)


def test_geometry3k(tmp_path):
    rows = [{"images": [embedded()], "problem": "<image>Find x.", "answer": r"\sqrt{2}"}]
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", rows)
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows * 2)
    (prompt,) = prompts("geometry3k", tmp_path, tmp_path)
    assert (prompt.reference, text_of(prompt)) == (r"\sqrt{2}", "[image]Find x.")
    assert len(prompts("geometry3k", tmp_path, tmp_path, splits=("test",))) == 2


def test_geometry3k_with_choices(tmp_path):
    rows = [
        {
            "id": 9,
            "images": [embedded()],
            "problem": "Find x.",
            "answer": "B",
            "choices": ["1", "2", "3", "4"],
            "ground_truth": "2",
        }
    ]
    (prompt,) = prompts("geometry3k", parquet(tmp_path / "a.parquet", rows), tmp_path)
    assert (prompt.reference, dict(prompt.options)["B"]) == ("B", "2")
    assert prompt.meta["ground_truth"] == "2"


def test_puzzlevqa(tmp_path):
    row = {
        "image": embedded(),
        "question": "What is missing?",
        "options": ["6", "3", "4"],
        "answer": "4",
        "caption": "c",
        "explanation": "e",
        "deduction": "d",
    }
    (prompt,) = prompts(
        "puzzlevqa", parquet(tmp_path / "train-00000-of-00001.parquet", [row]), tmp_path
    )
    assert (prompt.reference, len(prompt.images)) == ("C", 1)
    assert {"caption", "explanation", "deduction"} <= set(prompt.meta)


def test_algopuzzlevqa(tmp_path):
    row = {
        "image": embedded(),
        "question": "Possible?",
        "options": ["Yes", "No"],
        "answer": "No",
        "solution": "s",
    }
    (prompt,) = prompts("algopuzzlevqa", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, prompt.meta["solution"]) == ("B", "s")


def test_nlvr(tmp_path):
    place = tmp_path / "train" / "images" / "17" / "train-72-0-0.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(picture())
    row = {
        "sentence": "There is a black tower.",
        "identifier": "72-0",
        "directory": "17",
        "label": "false",
        "structured_rep": [[{"x_loc": 1}], [], []],
        "evals": {"r0": "false"},
    }
    path = jsonl(tmp_path / "train" / "train.json", [row])
    (prompt,) = prompts("nlvr", path, tmp_path)
    assert (prompt.reference, dict(prompt.options)) == ("B", {"A": "true", "B": "false"})
    assert prompt.key.endswith("#72-0")
    assert prompt.images == (picture(),)
    assert prompt.meta["directory"] == "17"
    assert "There is a black tower." in text_of(prompt)
    place.unlink()
    assert "can't read" in fault("nlvr", path)


def test_vlmsblind(tmp_path):
    row = {
        "image": embedded(),
        "task": "Nested Squares",
        "prompt": "Count.",
        "groundtruth": "3",
        "metadata": "{}",
    }
    (prompt,) = prompts("vlmsblind", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, text_of(prompt), prompt.meta["task"]) == (
        "3",
        "[image]Count.",
        "Nested Squares",
    )


MATHVISION = {
    "id": "4",
    "question": "How many?\n<image1>\n<image2>",
    "options": ["A", "B", "D", "F", "G"],
    "image": "images/4.jpg",
    "decoded_image": embedded(kind="JPEG"),
    "answer": "B",
    "solution": None,
    "level": 2,
    "subject": "counting",
}


def test_mathvision(tmp_path):
    free = {**MATHVISION, "id": "5", "options": [], "answer": r"$\frac{1}{2}$"}
    path = parquet(tmp_path / "data" / "test-00000-of-00001.parquet", [MATHVISION, free])
    choice, other = prompts("mathvision", tmp_path, tmp_path)
    assert path.is_file()
    assert (choice.reference, choice.options["B"], choice.images) == (
        "B",
        "B",
        (picture(kind="JPEG"),),
    )
    assert "<image1>" in text_of(choice)  # one merged picture: the marks stay text
    assert (other.reference, other.meta["level"]) == (r"$\frac{1}{2}$", 2)


def test_mathvision_as_a_vlmevalkit_tsv(tmp_path):
    row = {
        "index": 4,
        "image": text64(picture()),
        "question": "How many? <image1>",
        "A": "1",
        "B": "2",
        "answer": "B",
    }
    (prompt,) = prompts("mathvision", tsv(tmp_path / "MathVision.tsv", [row]), tmp_path)
    assert (prompt.reference, prompt.images) == ("B", (picture(),))


def test_mathvista(tmp_path):
    row = {
        "pid": "1",
        "question": "Which is larger?",
        "image": "images/1.jpg",
        "decoded_image": embedded(),
        "choices": ["(A) one", "two"],
        "unit": None,
        "precision": None,
        "answer": "two",
        "question_type": "multi_choice",
        "answer_type": "text",
        "metadata": {"split": "testmini", "skills": ["a"]},
        "query": "Hint: ...",
    }
    free = {
        **row,
        "pid": "2",
        "choices": None,
        "answer": "1.20",
        "question_type": "free_form",
        "precision": 2.0,
    }
    parquet(tmp_path / "data" / "testmini-00000-of-00001.parquet", [row, free])
    choice, other = prompts("mathvista", tmp_path, tmp_path)
    assert (choice.reference, choice.key.split("#")[1]) == ("B", "1")
    assert (other.reference, other.meta["precision"], other.meta["query"]) == (
        "1.20",
        2.0,
        "Hint: ...",
    )
    hidden = parquet(tmp_path / "test.parquet", [{**free, "answer": ""}])
    assert 'field "answer"' in fault("mathvista", hidden)


def test_mmmu(tmp_path):
    row = {
        "id": "validation_Art_1",
        "question": "Compare <image 2> with <image 1>.",
        "options": "['It\\'s one', 'two']",
        "explanation": "",
        **{f"image_{i}": None for i in range(1, 8)},
        "image_1": embedded("red"),
        "image_2": embedded("blue"),
        "img_type": "['Paintings']",
        "answer": "B",
        "topic_difficulty": "Easy",
        "question_type": "multiple-choice",
        "subfield": "Art",
    }
    twice = {
        **row,
        "id": "2",
        "question": "<image 1>, again <image 1>",
        "image_2": None,
        "options": "['<image 1>', 'b']",
    }
    opened = {
        **row,
        "id": "3",
        "question": "Value in <image 1>?",
        "image_2": None,
        "options": "[]",
        "answer": "['1/2', '0.5']",
        "question_type": "open",
    }
    parquet(tmp_path / "validation-00000-of-00001.parquet", [row, twice, opened])
    one, two, three = prompts("mmmu", tmp_path, tmp_path)
    assert one.images == (picture("blue"), picture("red"))  # in the order of the text
    assert text_of(one) == "Compare [image] with [image].\nA. It's one\nB. two"
    assert [part["type"] for part in two.messages[0]["content"]] == ["image", "text"]
    assert (two.reference, three.reference, three.meta["answers"]) == ("B", "1/2", ["1/2", "0.5"])


def test_chartqa(tmp_path):
    old = {"image": embedded(), "query": "Value?", "label": ["12%"], "human_or_machine": 0}
    new = {"image": embedded(), "question": "Value?", "answer": "12%", "type": "human_test"}
    for name, row in (("old", old), ("new", new)):
        path = parquet(tmp_path / f"{name}.parquet", [row])
        (prompt,) = prompts("chartqa", path, tmp_path, splits=("test",))
        assert (prompt.reference, text_of(prompt)) == ("12%", "[image]Value?")


def test_docvqa(tmp_path):
    row = {
        "questionId": "337",
        "question": "What date?",
        "question_types": ["handwritten"],
        "image": embedded(),
        "docId": 279,
        "ucsf_document_id": "xnbl0037",
        "ucsf_document_page_no": "1",
        "answers": ["1/8/93", "1-8-93"],
        "data_split": "val",
    }
    (prompt,) = prompts(
        "docvqa", parquet(tmp_path / "validation.parquet", [row]), tmp_path, splits=("val",)
    )
    assert (prompt.reference, prompt.meta["answers"]) == ("1/8/93", ["1/8/93", "1-8-93"])
    assert (prompt.key.split("#")[1], prompt.meta["docId"]) == ("337", 279)


def test_wemath(tmp_path):
    (tmp_path / "1.png").write_bytes(picture())
    row = {
        "ID": "2steps_1_1",
        "split": "testmini",
        "knowledge concept": "Area",
        "question": "How large?",
        "option": "A. 1; 2 cm;B. 4 cm; C. 5 cm; E. No correct answer",
        "answer": "B",
        "image_path": "1.png",
        "key": "2steps_1",
        "question number": 1,
        "knowledge concept description": "d",
    }
    path = tmp_path / "testmini.json"
    path.write_text(json.dumps([row]))
    (prompt,) = prompts("wemath", tmp_path, tmp_path)
    assert prompt.reference == "B"
    assert dict(prompt.options) == {
        "A": "1; 2 cm",
        "B": "4 cm",
        "C": "5 cm",
        "E": "No correct answer",
    }
    assert len(prompt.images) == 1


def test_clevr_count(tmp_path):
    rows = [
        {"image": embedded(), "problem": "How many?", "solution": "<answer> 3 </answer>"},
        {"image": embedded(), "problem": "Is it red?", "solution": "<answer> yes </answer>"},
    ]
    (one,) = source_sets("clevr_count", Request(data=parquet(tmp_path / "a.parquet", rows)))
    (made,) = make_shards(one, tmp_path / "out")
    assert made.manifest["answers"]["commonest"] == {"3": 1}
    assert made.manifest["refused"]["why"] == {"not_wanted": 1}


def test_clevr_as_its_authors_publish_it(tmp_path):
    place = tmp_path / "images" / "val" / "CLEVR_val_000000.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(picture())
    (tmp_path / "questions").mkdir()
    question = {"image_index": 0, "image_filename": place.name, "split": "val", "program": []}
    asked = [("How many cubes?", "2"), ("Same size?", "no")]
    questions = [{**question, "question": text, "answer": answer} for text, answer in asked]
    path = tmp_path / "questions" / "CLEVR_val_questions.json"
    path.write_text(json.dumps({"info": {"split": "val"}, "questions": questions}))
    (prompt,) = prompts("clevr_count", path, tmp_path, splits=("val",))
    assert (prompt.reference, prompt.images, prompt.meta["image_index"]) == ("2", (picture(),), 0)


def test_countbenchqa(tmp_path):
    row = {"image": embedded(), "text": "four cats", "question": "How many cats?", "number": 4}
    (prompt,) = prompts("clevr_count", parquet(tmp_path / "a.parquet", [row]), tmp_path)
    assert (prompt.reference, prompt.meta["text"]) == ("4", "four cats")


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


@pytest.mark.parametrize("described", PUBLIC_SETS, ids=lambda described: described.name)
def test_every_set_says_what_it_may_be_used_for(tmp_path, described):
    assert described.licence
    assert described.origin.startswith("https://")
    assert described.name in SOURCES
    (tmp_path / "train.jsonl").touch()
    request = Request(data=tmp_path / "train.jsonl", splits=("train",))
    if described.evaluation_only:
        with pytest.raises(ValueError, match=rf"{described.name} is for evaluation only"):
            list(source_sets(described.name, request))
        assert described.split in ("val", "test")
    else:
        assert len(list(source_sets(described.name, request))) == 1


ODD = [
    None,
    "",
    "x",
    "A",
    "['a', 'b']",
    "['a'",
    "{",
    "A. one; B. two",
    "\x00",
    "no/such.png",
    0,
    -1.5,
    float("nan"),
    True,
    b"\x89PNG",
    [],
    [None],
    [1, "a"],
    [[]],
    {},
    {"bytes": None, "path": None},
    {"bytes": b"x"},
    {"header": 1, "rows": 2},
    {"header": ["a"], "rows": [[1], None]},
    {"header": ["a"], "rows": [3]},
    [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}],
    [{"input": 1}],
    [{"role": []}],
]


@pytest.mark.parametrize("name", [*(one.name for one in PUBLIC_SETS), "conversations"])
def test_whatever_a_row_holds_it_is_a_sample_or_refused(tmp_path, name):
    rng = random.Random(name)
    (one,) = source_sets(name, Request(data=jsonl(tmp_path / "a.jsonl", [{}])))
    described = one.described
    names = {x for field in vars_of(described.columns) for x in field} | {"A", "B", "image_2"}
    names |= {"public_test_cases", "private_test_cases", "metadata", "question_content", "puzzle"}
    names |= {"solution", "conversations", "messages", "starter_code", "directory", "identifier"}
    found = set()
    for _ in range(600):
        chosen = rng.sample(sorted(names), rng.randint(0, len(names)))
        fields = {x: rng.choice(ODD) for x in chosen}
        row = Row(number=1, where="row 1", fields=fields, folder=tmp_path)
        try:
            sample = to_sample(row, described, key="k")
        except RowError as error:
            found.add(bool(error.kind and error.field and error.detail))
        except NotWanted:
            assert described.only_answers
        else:
            assert isinstance(sample["answer"], str)
    assert found == {True}


def vars_of(columns):
    return [getattr(columns, name) for name in columns.__dataclass_fields__]
