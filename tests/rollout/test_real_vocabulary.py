"""A small Qwen3-VL with Qwen's real vocabulary: ids, prompts, sampling at the published size."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from models import architecture, encode, picture, prompt_batch
from qwen_vocabulary import ranks_file, read_ranks, real_qwen_tokenizer
from transformers import PreTrainedTokenizerFast

from sapo_vl.policy import Policy, PolicyConfig
from sapo_vl.policy.build import SPLIT, build_model
from sapo_vl.rollout import Sampler
from sapo_vl.types import Sampling

pytest.importorskip("dashscope", reason="the real vocabulary comes with dashscope")

PUBLISHED_VOCAB_SIZE = 151936
TEXTS = (  # ASCII, accents and blanks, Chinese and emoji, code, Russian with Arabic and Hindi
    "How many red circles are left of the blue square? 1234 + 5678 = 6912.",
    "It's 3.14 and\n\n  they'LL go\t\tto  the caf\u00e9.   \n",
    "\u5706\u5f62\u6709\u591a\u5c11\u4e2a\uff1f\u4e09\u3002 \U0001f642\U0001f44d\U0001f3fd",
    "def f(x):\n    return {'a': x**2, \"b\": [1, 2]}  # \\boxed{\\frac{1}{2}}",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d",
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return real_qwen_tokenizer()


@pytest.fixture(scope="module")
def policy(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    content = architecture("qwen3_vl")
    content["text_config"] |= {"vocab_size": PUBLISHED_VOCAB_SIZE, "hidden_size": 32}
    content["vision_config"]["out_hidden_size"] = 32
    folder: Path = tmp_path_factory.mktemp("real")
    build_model(content, tokenizer, folder, min_pixels=256, max_pixels=65536)
    return Policy(PolicyConfig(path=str(folder)))


def test_ids_are_the_published_ones(tokenizer: PreTrainedTokenizerFast) -> None:
    published = {
        "system": 8948,
        "<|endoftext|>": 151643,
        "<|im_start|>": 151644,
        "<|im_end|>": 151645,
        "<|vision_start|>": 151652,
        "<|vision_end|>": 151653,
        "<|image_pad|>": 151655,
        "<|video_pad|>": 151656,
        "<think>": 151667,
        "</think>": 151668,
    }
    for token, number in published.items():
        assert tokenizer(token)["input_ids"] == [number]
    assert len(tokenizer) == 151669
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (151645, 151643)


def test_ids_equal_those_of_tiktoken(tokenizer: PreTrainedTokenizerFast) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "qwen", pat_str=SPLIT, mergeable_ranks=read_ranks(ranks_file()), special_tokens={}
    )
    for text in (*TEXTS, inspect.getsource(Sampler)):
        ids = tokenizer(text)["input_ids"]
        assert ids == encoding.encode(text)
        assert tokenizer.decode(ids) == text


def test_the_cache_gives_the_same_tokenizer(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "qwen_vocabulary._convert", lambda _: pytest.fail("converted again instead of read")
    )
    again = real_qwen_tokenizer()
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert tokenizer.chat_template == again.chat_template


def test_the_folder_keeps_the_ids(policy: Policy) -> None:
    assert len(policy.tokenizer) == 151669
    assert policy.model.config.image_token_id == 151655
    assert policy.eos_ids == (151645,)
    assert policy.pad_id == 151643
    prompt = encode(policy.processor, "How many?", [picture(64, 32)])
    ids = prompt.input_ids_S.tolist()
    assert ids[:3] == [151644, 872, 198]  # <|im_start|>user\n
    assert ids.count(151655) == 8
    assert ids[-3:] == [151644, 77091, 198]  # <|im_start|>assistant\n


def test_no_sampled_id_lies_beyond_the_tokenizer(policy: Policy) -> None:
    assert int(policy.banned_V.sum()) == PUBLISHED_VOCAB_SIZE - 151669 + 4
    with torch.no_grad():  # make the ids that no text has the most likely ones by far
        policy.model.lm_head.weight[151669:] *= 20
    prompt = encode(policy.processor, "How many?", [picture(64, 32)])
    batch = prompt_batch([prompt, encode(policy.processor, "Why?")], [0, 1])
    sampling = Sampling(group_size=8, temperature=1.5, max_new_tokens=12)
    rollout = Sampler()(policy, batch, sampling, (0, 0))
    sampled = rollout.response_ids_BT[rollout.mask_BT]
    assert int(sampled.max()) < len(policy.tokenizer)
    assert not policy.banned_V[sampled].any()
    assert len(sampled.unique()) > 50
    scores = policy.score(
        batch.inputs,
        torch.arange(2).repeat_interleave(8),
        rollout.response_ids_BT,
        rollout.mask_BT,
        1.5,
    )
    torch.testing.assert_close(scores.logp_BT.detach(), rollout.logp_BT, rtol=0, atol=1e-5)
