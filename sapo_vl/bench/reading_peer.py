"""TRL's streaming path, done with its own functions, for `reading` to measure beside ours."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from sapo_vl.processor import load_processor


def trl_batches(
    files: Sequence[str], processor: str, prompts: int, group: int, pixels: tuple[int, int]
) -> Callable[[], Iterator[Any]] | None:
    """What GRPOTrainer does to a batch of prompts from a stream; None where TRL isn't installed.

    From trl 1.16, trainer/grpo_trainer.py: the stream repeats each row G times and no worker reads
    ahead (get_train_dataloader, __init__); the rows go through the processor once to sample
    (_tokenize_prompts) and once more to score (_generate_and_score_completions). With
    steps_per_generation above 1 the rows would be read as many times more.
    """
    if not (importlib.util.find_spec("trl") and importlib.util.find_spec("datasets")):
        return None
    from datasets import load_dataset
    from trl.data_utils import apply_chat_template, prepare_multimodal_messages
    from trl.trainer.utils import identity, repeat_iterable_dataset

    own = load_processor(processor)
    own.image_processor.size = {"shortest_edge": pixels[0], "longest_edge": pixels[1]}

    def row(sample: dict[str, Any]) -> dict[str, Any]:
        text = sample["json"]["question"]
        return {"prompt": [{"role": "user", "content": text}], "image": sample["jpg"]}

    def batches() -> Iterator[Any]:
        stream = load_dataset("webdataset", data_files=list(files), split="train", streaming=True)
        stream = stream.map(row, remove_columns=list(stream.features or stream.column_names))
        repeated = repeat_iterable_dataset(
            stream.shuffle(seed=0), mini_repeat_count=group, batch_size=prompts
        )
        loader = torch.utils.data.DataLoader(
            repeated, batch_size=prompts * group, collate_fn=identity, num_workers=0
        )
        for rows in itertools.chain.from_iterable(itertools.repeat(loader)):
            images = [[one["image"]] for one in rows]
            messages = [
                prepare_multimodal_messages(one["prompt"], images=own_images)
                for one, own_images in zip(rows, images, strict=True)
            ]
            tokens = own.apply_chat_template(
                conversation=messages, add_generation_prompt=True, tokenize=True, return_dict=True
            )
            texts = [apply_chat_template({"prompt": m}, own)["prompt"] for m in messages]
            yield tokens, own(images=images, text=texts, padding=True, return_tensors="pt")

    return batches
