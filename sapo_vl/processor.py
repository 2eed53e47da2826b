"""Load a model's processor: the one thing of a model that the data and the policy both need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoProcessor


def load_processor(path: str) -> Any:
    """Load the processor (tokenizer, image and video processors, chat template) of a model.

    Raises:
        FileNotFoundError: the folder is missing or has no processor.
    """
    require_folder(path)
    try:
        processor = AutoProcessor.from_pretrained(path)
    except (OSError, ValueError, TypeError) as error:
        raise FileNotFoundError(
            f"{path} has no usable processor (processor_config.json, tokenizer.json, chat "
            f"template): {first_line(error)}. Copy these files from the model that the weights "
            "come from."
        ) from error
    if not hasattr(processor, "image_processor"):
        raise FileNotFoundError(
            f"{path} has a tokenizer but no image processor; "
            "copy processor_config.json (or preprocessor_config.json) from the original model."
        )
    if processor.chat_template is None:
        raise FileNotFoundError(
            f"{path} has no chat template; copy chat_template.jinja from the original model."
        )
    return processor


def require_folder(path: str) -> None:
    """Raise FileNotFoundError if ``path`` is neither a folder nor can be a hub name."""
    looks_local = path.startswith((".", "/", "~")) or path.count("/") != 1
    if looks_local and not Path(path).is_dir():
        raise FileNotFoundError(
            f"no model folder {path!r}. "
            "Give a local Hugging Face folder or a hub name (owner/name)."
        )


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
