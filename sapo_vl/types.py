"""The values that travel through one iteration; every other module speaks in these.

Path: shard -> sample -> Prompt -> PromptBatch -> Rollout -> Verdict -> LossOutput.

Shape letters: P prompts, G group size, B = P * G responses, T response tokens, S prompt tokens, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # for annotations: a verifier's worker process need not load torch
    import torch
    from torch import Tensor

    from sapo_vl.protocols import AnswerMetric, Verifier

# Why a sample may be left out of a stream; each is logged as data/skipped_<why>, on every rank.
SKIP_REASONS = (
    "damaged_shard",
    "duplicate_key",
    "missing_json",
    "bad_json",
    "missing_question",
    "missing_answer",
    "unusable_reference",
    "image_count",
    "unknown_media",
    "undecodable_media",
    "too_long",
    "encoder_error",
)

VerdictStatus = Literal["ok", "no_answer", "unparsable_reference", "timeout", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier says of one response.

    Example: ``Verdict(score=1.0, extracted="3", reason="3 equals the reference 3")``.
    """

    score: float  # in [0, 1]
    extracted: str | None = None  # the final answer as found in the response; None: none was found
    status: VerdictStatus = "ok"
    reason: str = ""  # one sentence for a person
    parts: Mapping[str, float] = field(default_factory=dict)  # breakdown when several are combined


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    r"""One question with its media, its reference answer and the task it belongs to.

    Example: ``Prompt(key="counting-000000.tar#000017", index=81, task="counting",
    messages=({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How
    many?"}]},), images=(b"\x89PNG...",), reference="3", verifier=NumberVerifier())``.
    """

    reference: str  # the answer that is right
    task: str = ""  # name of the source: one verifier, one share of every batch
    key: str = ""  # unique name of the sample: "<shard>#<key>"
    index: int = 0  # position of this prompt in the run's stream, the same on any number of ranks
    messages: tuple[Mapping[str, Any], ...] = ()  # Qwen chat form; media parts hold no data
    images: tuple[bytes, ...] = ()  # encoded files, in the order of the messages' image parts
    videos: tuple[bytes, ...] = ()  # encoded files, in the order of the messages' video parts
    options: Mapping[str, str] = field(default_factory=dict)  # label -> text; empty: not a choice
    response: str | None = None  # a worked response, the target of a cold start
    meta: Mapping[str, Any] = field(default_factory=dict)  # whatever else the sample's JSON held
    verifier: Verifier | None = None
    problem: str = ""  # what variants of one problem share; empty: the prompt is a problem itself
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # field -> its values


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInputs:
    """One prompt as the model takes it, unpadded, made once per prompt by the processor.

    Example: ``PromptInputs(input_ids_S=..., mm_token_type_ids_S=..., media={"pixel_values":
    float32 [64, 384], "image_grid_thw": int64 [1, 3]})``.
    """

    input_ids_S: Tensor  # int64, media placeholders already expanded
    mm_token_type_ids_S: Tensor  # int64: 0 text, 1 image, 2 video
    media: Mapping[str, Tensor] = field(default_factory=dict)  # pixel_values, image_grid_thw, ...

    def to(self, device: torch.device | str) -> PromptInputs:
        """Copy every tensor to ``device``."""
        return PromptInputs(
            input_ids_S=self.input_ids_S.to(device),
            mm_token_type_ids_S=self.mm_token_type_ids_S.to(device),
            media={name: value.to(device) for name, value in self.media.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A sample that was left out, where it lies and why.

    Example: ``Skip(why="undecodable_image", where="a-000000.tar#000017", detail="cannot identify
    image file")``.
    """

    why: str  # a short fixed name, logged as data/skipped_<why>
    where: str
    detail: str


class PromptBatch:
    """The prompts of one rank for one iteration, with their model inputs.

    Not a dataclass on purpose: Lightning's precision plugins rebuild dataclasses and cast the
    floats in them; this class they leave alone, and ``to`` is all they need.
    """

    __slots__ = ("headlines", "inputs", "metrics", "prompts", "skipped", "tasks", "waited")

    def __init__(
        self,
        prompts: Sequence[Prompt],
        inputs: Sequence[PromptInputs],
        tasks: Sequence[str],
        skipped: Sequence[Skip] = (),
        metrics: Mapping[str, Sequence[AnswerMetric]] | None = None,
    ) -> None:
        self.prompts = tuple(prompts)  # P
        self.inputs = tuple(inputs)  # P
        # Every task of the stream, in config order, the same on all ranks.
        self.tasks = tuple(tasks)
        self.skipped = tuple(skipped)  # samples left out while this batch was filled
        self.metrics = dict(metrics or {})  # task -> what it is scored by, fresh; else avg@n
        self.headlines: Mapping[str, Sequence[str]] = {}  # name -> the tasks it is the mean of
        self.waited = 0.0  # seconds that the trainer waited for this batch, set by its loader

    def __len__(self) -> int:
        return len(self.prompts)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PromptBatch:
        """Copy the model inputs to ``device``; the prompts stay where they are."""
        inputs = [x.to(device) for x in self.inputs]
        moved = PromptBatch(self.prompts, inputs, self.tasks, self.skipped, self.metrics)
        moved.waited = self.waited
        return moved


@dataclass(frozen=True, kw_only=True)  # no slots: the command line reads defaults from __dict__
class Sampling:
    """How responses are drawn.

    Args:
        group_size: responses per prompt (G; in evaluation the n of avg@n).
        temperature: divides the logits before the softmax; 0 takes the most likely token.
        top_p: smallest set of tokens with this probability mass; must be 1 in training.
        top_k: keep this many most likely tokens; 0 keeps all; must be 0 in training.
        presence_penalty: taken off the logit of every token that the response holds already,
            before the temperature (OpenAI's parameter); must be 0 in training.
        max_new_tokens: a response that has not ended by then is truncated.
    """

    group_size: int = 8
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    max_new_tokens: int = 256

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ValueError(f"sampling.group_size is {self.group_size}; it must be at least 1")
        if self.temperature < 0:
            raise ValueError(
                f"sampling.temperature is {self.temperature}; it must be 0 (greedy) or more"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"sampling.top_p is {self.top_p}; it must lie in (0, 1]")
        if self.top_k < 0:
            raise ValueError(f"sampling.top_k is {self.top_k}; it must be 0 (off) or more")
        if self.max_new_tokens < 1:
            raise ValueError(
                f"sampling.max_new_tokens is {self.max_new_tokens}; it must be at least 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The sampled responses of a batch, prompt after prompt (row b belongs to prompt b // G).

    Example (P = 1, G = 2): ``response_ids_BT = [[51, 7, 2], [9, 2, 0]]``,
    ``mask_BT = [[1, 1, 1], [1, 1, 0]]``, ``finished_B = [True, True]``.
    """

    group_size: int  # G
    response_ids_BT: Tensor  # int64; the end-of-turn token included, padding after it
    mask_BT: Tensor  # bool; True on response tokens
    logp_BT: Tensor  # float32; the sampler's own log-probs at its temperature, 0 where masked
    entropy_BT: Tensor  # float32; of the distributions that were sampled, 0 where masked
    finished_B: Tensor  # bool; False: cut at max_new_tokens
    texts: tuple[str, ...]  # B decoded responses, special tokens left out

    @property
    def length_B(self) -> Tensor:
        """Response lengths in tokens, int64."""
        return self.mask_BT.sum(dim=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutput:
    """What an objective returns.

    ``stats`` holds detached float32 tensors for callbacks, 0 where masked: ``log_ratio_BT`` (new
    minus old log-prob, as clamped) and ``gate_BT`` (the soft weight w in [0, 1]; the effective
    weight is w * ratio).
    """

    loss: Tensor  # scalar, to be minimised
    stats: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOutput:
    """One optimizer step as callbacks see it; N is the responses of its mini-batch on this rank.

    Responses of groups that carry no signal are not scored and appear nowhere here, but for those
    under a KL penalty.
    """

    loss: float
    grad_norm: float  # before clipping
    lr: float
    advantage_N: Tensor  # float32
    mask_NT: Tensor  # bool
    log_ratio_NT: Tensor  # float32, new minus old log-prob
    gate_NT: Tensor  # float32, the soft weight w
    kl_NT: Tensor | None = None  # float32, KL(policy || reference policy); None: no penalty


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationOutput:
    """What ``SAPOModule.training_step`` returns, under the key "iteration", for callbacks."""

    iteration: int  # counted from 0 over the whole run, resumes included
    batch: PromptBatch  # the prompts trained on; spares in, groups they replaced out
    rollout: Rollout
    verdicts: tuple[Verdict, ...]  # B
    reward_PG: Tensor  # float32
    advantage_PG: Tensor  # float32
    old_logp_BT: Tensor  # float32, of the policy before the first update, where scored
    scored_BT: Tensor  # bool; False on responses of groups that have no gradient
    weight_BT: Tensor | None  # float32; a correction's weights, 0 where masked
    updates: tuple[UpdateOutput, ...]
    replaced: int  # groups without signal whose place a spare prompt's group took
    extra: int  # spare prompts that were rolled out
    seconds: Mapping[str, float]  # sync, rollout, verify, old_logp, update, perhaps reference


class Answers:
    r"""The responses to one prompt from an evaluation or a prediction, and what was said of them.

    Not a dataclass, for the reason PromptBatch is none: Lightning rebuilds those in outputs, too.

    Example: ``Answers(prompt, "avg4", texts=("\boxed{3}", ...), verdicts=(Verdict(score=1.0), ...),
    lengths=(4, ...), finished=(True, ...))``.
    """

    __slots__ = ("finished", "lengths", "prompt", "sampling", "texts", "verdicts")

    def __init__(
        self,
        prompt: Prompt,
        sampling: str,
        *,
        texts: Sequence[str],
        verdicts: Sequence[Verdict],
        lengths: Sequence[int],
        finished: Sequence[bool],
    ) -> None:
        self.prompt = prompt
        self.sampling = sampling  # name of the Sampling it was drawn with
        self.texts = tuple(texts)
        self.verdicts = tuple(verdicts)  # empty: not judged
        self.lengths = tuple(lengths)  # in tokens
        self.finished = tuple(finished)  # False: cut at max_new_tokens
