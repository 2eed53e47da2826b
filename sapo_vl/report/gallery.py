"""Prompts with their answers, before and after: which to show, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sapo_vl.report.images import ImageBudget
from sapo_vl.report.records import Evaluation, Response, Sample, Stage
from sapo_vl.report.scale import MINUS

TEXT_LIMIT = 4000  # characters of a text that are shown
RESPONSES = 8  # responses of one sampling that are shown
_LEADING_MARKS = re.compile(r"^(\[(image|video)\] ?)+")  # the media stand above the question


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One response as the page shows it: ``kind`` is right, wrong or partly; ``mark`` says it."""

    kind: str
    mark: str
    extracted: str | None
    text: str
    reason: str
    facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The answers of one sampling; ``tally`` says how many are right."""

    sampling: str
    tally: str
    answers: tuple[Answer, ...]
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one test, or one iteration of training, answered to a prompt."""

    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One prompt: ``images`` are data URIs (None: not embedded), ``tags`` what filters ask for."""

    task: str
    key: str
    question: str
    options: Mapping[str, str]
    images: tuple[str | None, ...]
    films: tuple[str | None, ...]  # the middle frame of each video, as images
    reference: str
    columns: tuple[Column, ...]
    tags: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """The first tag, in words."""
        return LABELS[self.tags[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """A filterable list; ``filters`` holds (tag, label, count), ``total`` counts all prompts."""

    title: str
    note: str
    items: tuple[Item, ...]
    tasks: tuple[str, ...]
    filters: tuple[tuple[str, str, int], ...]
    total: int


@dataclass(frozen=True, slots=True)
class _Entry:
    tags: tuple[str, ...]
    columns: tuple[tuple[str, tuple[Sample, ...]], ...]  # name, one sample per sampling

    @property
    def first(self) -> Sample:
        return self.columns[0][1][0]


LABELS = {
    "fixed": "became right",
    "broken": "became wrong",
    "right": "right",
    "mixed": "mixed",
    "wrong": "wrong",
}


def evaluation_gallery(
    tests: Sequence[Evaluation], *, most: int, budget: ImageBudget
) -> Gallery | None:
    """The prompts of all tests side by side, flipped ones first; None when no answer was saved."""
    grouped: dict[tuple[str, str], dict[str, list[Sample]]] = {}
    for test in tests:
        for sample in test.samples:
            columns = grouped.setdefault((sample.task, sample.key or sample.question), {})
            columns.setdefault(test.name, []).append(sample)
    entries = [_test_entry(columns) for columns in grouped.values()]
    note = (
        "A prompt counts as right by its greedy answer where there is one, else by the average of "
        "its sampled answers."
    )
    names = dict(LABELS)
    if len(tests) > 1:
        names |= {"right": "right after", "wrong": "wrong after"}
        fixed, broken = (sum(tag in e.tags for e in entries) for tag in ("fixed", "broken"))
        note += f" Of all saved prompts {fixed} became right and {broken} became wrong."
    shown = sorted(_choose(entries, most), key=lambda e: list(LABELS).index(e.tags[0]))
    return _gallery("Test answers", note, shown, len(entries), names, budget)


def training_gallery(stage: Stage, *, most: int, budget: ImageBudget) -> Gallery | None:
    """The answers sampled while a stage trained, by iteration; None when none was saved."""
    grouped: dict[tuple[str, str, str], dict[str, list[Sample]]] = {}
    for sample in sorted(stage.samples, key=lambda sample: sample.iteration):
        key = (sample.stage, sample.task, sample.key or sample.question)
        where = "validation at" if sample.stage == "val" else "iteration"
        grouped.setdefault(key, {}).setdefault(f"{where} {sample.iteration}", []).append(sample)
    entries = [
        _Entry((_group_tag(columns),), tuple((n, tuple(s)) for n, s in columns.items()))
        for columns in grouped.values()
    ]
    note = (
        "Each prompt was answered several times; “mixed” groups are those SAPO learns from, since "
        "only there some answers beat the others."
    )
    count = len(entries)
    every = {round(i * (count - 1) / max(most - 1, 1)) for i in range(most)}
    shown = entries if count <= most else [entries[i] for i in sorted(every)]
    title = f"Answers while training: {stage.name}"
    return _gallery(title, note, shown, count, LABELS, budget)


def _gallery(
    title: str,
    note: str,
    shown: Sequence[_Entry],
    total: int,
    names: Mapping[str, str],
    budget: ImageBudget,
) -> Gallery | None:
    if not shown:
        return None
    items = tuple(_item(entry, budget) for entry in shown)
    counts = {tag: sum(tag in item.tags for item in items) for tag in names}
    return Gallery(
        title=title,
        note=note,
        items=items,
        tasks=tuple(sorted({item.task for item in items})),
        filters=tuple((tag, names[tag], count) for tag, count in counts.items() if count),
        total=total,
    )


def _choose(entries: Sequence[_Entry], most: int) -> list[_Entry]:
    """At most ``most`` entries, in turn from every outcome and task so that none is missing."""
    kinds: dict[tuple[str, str], list[_Entry]] = {}
    for entry in entries:
        kinds.setdefault((entry.tags[0], entry.first.task), []).append(entry)
    turns = zip_longest(*(kinds[kind] for kind in sorted(kinds)))
    return [entry for turn in turns for entry in turn if entry is not None][:most]


def _test_entry(columns: Mapping[str, list[Sample]]) -> _Entry:
    names = list(columns)
    before, after = (_is_right(columns[name]) for name in (names[0], names[-1]))
    tags = ["right" if after else "wrong"]
    if before != after:
        tags.insert(0, "fixed" if after else "broken")
    return _Entry(tuple(tags), tuple((name, tuple(columns[name])) for name in names))


def _is_right(samples: Iterable[Sample]) -> bool:
    ranked = sorted(samples, key=lambda sample: sample.sampling != "greedy")
    scores = [response.score for response in ranked[0].responses]
    return sum(scores) >= 0.5 * len(scores) > 0


def _group_tag(columns: Mapping[str, list[Sample]]) -> str:
    right = [r.score >= 0.5 for samples in columns.values() for s in samples for r in s.responses]
    return "right" if right and all(right) else "mixed" if any(right) else "wrong"


def _item(entry: _Entry, budget: ImageBudget) -> Item:
    sample = entry.first
    images, films = (
        tuple(budget.embed(sample.folder, name) for name in names)
        for names in (sample.images, sample.video_frames)
    )
    return Item(
        task=sample.task or "unnamed",
        key=sample.key,
        question=clip(_LEADING_MARKS.sub("", sample.question)),
        options=sample.options,
        images=images,
        films=films,
        reference=clip(sample.reference),
        columns=tuple(Column(name=n, blocks=tuple(map(_block, s))) for n, s in entry.columns),
        tags=entry.tags,
    )


def _block(sample: Sample) -> Block:
    right = sum(response.score >= 1 for response in sample.responses)
    return Block(
        sampling=sample.sampling,
        tally=f"{right} of {len(sample.responses)} right" if len(sample.responses) > 1 else "",
        answers=tuple(_answer(response) for response in sample.responses[:RESPONSES]),
        hidden=max(0, len(sample.responses) - RESPONSES),
    )


def _answer(response: Response) -> Answer:
    kind = "right" if response.score >= 1 else "wrong" if response.score <= 0 else "partly"
    facts = [f"{response.length} tokens"]
    if not response.finished:
        facts.append("cut off")
    if response.advantage is not None:
        facts.append(f"advantage {response.advantage:+.2f}".replace("-", MINUS))
    if response.status not in ("ok", "no_answer"):
        facts.append(response.status.replace("_", " "))
    return Answer(
        kind=kind,
        mark=f"partly right ({response.score:.2g})" if kind == "partly" else kind,
        extracted=None if response.extracted is None else clip(response.extracted, 200),
        text=clip(response.text),
        reason=clip(response.reason, 600),
        facts=" · ".join(facts),
    )


def clip(text: str, limit: int = TEXT_LIMIT) -> str:
    """The start of ``text``, with a word on how much was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
