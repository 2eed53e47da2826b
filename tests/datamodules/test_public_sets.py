"""What every public set says of itself, and that odd rows of it do no harm."""

import random

import pytest
from published import jsonl

from datamodules.sources.catalogue import SOURCES, Request, source_sets
from datamodules.sources.public import PUBLIC_SETS
from datamodules.sources.rows import Row, RowError
from datamodules.sources.table import NotWanted, to_sample


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
