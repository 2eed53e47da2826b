"""Every file of configs/eval is read and made into its objects."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from eval_config import BENCHMARKS, EVAL, SAMPLINGS, load, tasks

from datamodules import BenchmarkDataModule, PromptTemplate
from datamodules.benchmarks import with_thinking
from datamodules.fields import SampleError
from datamodules.samples import read_sample
from datamodules.sources.catalogue import SOURCES
from sapo_vl.protocols import Verifier
from sapo_vl.verifiers import BesideVerifier, ChoiceVerifier, CombinedVerifier, MathVerifier


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_made(name: str) -> None:
    for task in tasks(name).values():
        assert isinstance(task.verifier, Verifier)
        assert isinstance(task.template, PromptTemplate)
        assert len(task.template.texts) >= 2  # the official one and another
        card = task.card
        assert card is not None
        assert all((card.title, card.official, card.score, card.metric, card.licence))
        assert card.items > 0
        assert card.source.split()[0] in SOURCES
        if card.judge:  # a score by a rule is no official one
            assert re.search(r"_(rule|judge)$", task.name), task.name


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_header_says_how_to_make_the_shards_and_to_run(name: str) -> None:
    text = (EVAL / f"{name}.yaml").read_text()
    head = text.partition("seed_everything")[0]
    assert f"--config configs/eval/{name}.yaml" in head
    sources = {line.split()[2] for line in head.splitlines() if "make_shards.py" in line}
    assert sources == {
        task.card.source.split()[0] for task in tasks(name).values() if task.card is not None
    }


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_verifier_can_be_told_that_the_model_thinks(name: str) -> None:
    for task in tasks(name).values():
        assert with_thinking(task.verifier) != task.verifier


@pytest.mark.filterwarnings("ignore:LightningCLI's args parameter")
@pytest.mark.parametrize("name", SAMPLINGS)
def test_every_sampling_fits_every_benchmark(name: str) -> None:
    made = load("mathvision", f"sampling/{name}")
    (sampling,) = made.model.evaluation.values()
    assert sampling.group_size == 1
    assert list(made.model.evaluation) == [name]
    verifier: Any = made.datamodule.tasks["test"][0].verifier
    assert verifier.verifier.thinking is (name == "thinking")


@pytest.mark.filterwarnings("ignore:LightningCLI's args parameter")
def test_several_files_are_one_suite_and_their_wording_is_chosen_by_its_name() -> None:
    made = load("mathvision", "zebralogic", more=("--data.template", "qwen3_vl"))
    used = {task.name: task.template.use for task in made.datamodule.tasks["test"]}
    assert used == {"mathvision": "qwen3_vl", "zebralogic": "official"}


def test_a_wording_that_no_benchmark_has_is_named() -> None:
    benchmarks = list(tasks("mathvision").values())
    with pytest.raises(ValueError, match=r"data\.template is 'nothing'.*official.*qwen3_vl"):
        BenchmarkDataModule("FOLDER", benchmarks, template="nothing")


def test_the_number_of_samples_can_be_limited() -> None:
    data = BenchmarkDataModule("FOLDER", list(tasks("mathvision").values()), max_samples=5)
    assert [task.max_samples for task in data.tasks["test"]] == [5]


def test_thinking_reaches_every_verifier_and_no_field_else() -> None:
    rule = BesideVerifier(
        CombinedVerifier({"a": MathVerifier(), "b": ChoiceVerifier(form="whole")}),
        also={"c": MathVerifier(rel_tol=0.1)},
    )
    changed = with_thinking(rule)
    assert changed == BesideVerifier(
        CombinedVerifier(
            {"a": MathVerifier(thinking=True), "b": ChoiceVerifier(form="whole", thinking=True)}
        ),
        also={"c": MathVerifier(rel_tol=0.1, thinking=True)},
    )
    assert with_thinking(changed) == changed

    class Deaf:
        pass

    with pytest.raises(ValueError, match="Deaf has no `thinking`"):
        with_thinking(Deaf())


def test_a_template_fills_what_a_sample_has() -> None:
    template = PromptTemplate(
        texts={
            "official": "{{ question }}\n{% for l, t in options.items() %}\n({{ l }}) {{ t }}\n"
            "{% endfor %}\n{{ meta.hint }}",
            "other": "{{ question }}",
        }
    )
    filled = template.render("{{ 1 + 1 }}?", {"A": "x", "B": "y"}, {"hint": "h"})
    assert filled == "{{ 1 + 1 }}?\n(A) x\n(B) y\nh"  # a question is no template
    with pytest.raises(SampleError, match=r"'official' can't be filled.*'hint'.*which holds other"):
        template.render("q", {}, {"other": 1})
    assert replace(template, use="other").render("q", {}, {}) == "q"


def test_a_wording_may_have_a_system_message() -> None:
    (task,) = tasks("livecodebench_v6").values()
    template = task.template
    assert isinstance(template, PromptTemplate)
    fields = {"question": "q", "answer": "1", "question_content": "q", "starter_code": ""}
    sample = {"json": json.dumps(fields).encode()}
    first, second = read_sample(sample, key="1", template=template).messages
    assert first["role"] == "system"
    assert first["content"].startswith("You are an expert Python programmer.")
    assert second["content"][0]["text"].startswith("### Question:\nq\n")
    short = replace(template, use="short")
    assert [m["role"] for m in read_sample(sample, key="1", template=short).messages] == ["user"]
    assert str(template).startswith("official: (system: You are")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": {}}, "template.use is 'official'; there are no texts"),
        ({"texts": {"a": "x"}}, "template.use is 'official'; there are a"),
        (
            {"texts": {"official": "x"}, "systems": {"b": "s"}},
            "template.systems has b; .* official",
        ),
        ({"texts": {"official": "x\n{% if %}"}}, r"template\.texts\.official, line 2"),
    ],
)
def test_a_bad_template_is_named(arguments: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PromptTemplate(**arguments)


@pytest.mark.parametrize(
    "text",
    [
        "{{ question.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__ }}",
        "{{ options.clear() }}",
        "{% for x in range(10 ** 9) %}{% endfor %}",
        "{{ question.format.__globals__ }}",
    ],
)
def test_a_template_runs_no_code(text: str) -> None:
    with pytest.raises(SampleError, match="can't be filled"):
        PromptTemplate(texts={"official": text}).render("q", {"A": "x"}, {})
