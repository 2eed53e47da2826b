"""A model folder that cannot be used says which, why and what to do about it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sapo_vl.policy import Policy, PolicyConfig


@pytest.fixture
def copied_folder(model_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A model folder to damage."""
    return Path(shutil.copytree(model_folder("qwen3_vl"), tmp_path / "model"))


def change_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def check_error(folder: Path, error: type[Exception], *words: str, **config: Any) -> None:
    """Loading ``folder`` fails and the message holds its path and ``words``."""
    with pytest.raises(error, match=re.escape(str(folder))) as caught:
        Policy(PolicyConfig(path=str(folder), **config))
    for word in words:
        assert word in str(caught.value)


def test_missing_folder(tmp_path: Path) -> None:
    check_error(tmp_path / "nowhere", FileNotFoundError, "no model folder", "hub name (owner/name)")


def test_a_mistyped_folder_that_may_be_a_hub_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    monkeypatch.setattr("sapo_vl.policy.loading.AutoConfig.from_pretrained", unreachable)
    with pytest.raises(
        FileNotFoundError, match=r"no model folder 'runs/modle'.*couldn't connect"
    ) as caught:
        Policy(PolicyConfig(path="runs/modle"))
    assert "More lines" not in str(caught.value)


def test_no_config(copied_folder: Path) -> None:
    (copied_folder / "config.json").write_text("{")
    check_error(copied_folder, FileNotFoundError, "config.json", "Copy it")
    (copied_folder / "config.json").unlink()
    check_error(copied_folder, ValueError, "config.json", "supported family: qwen2_5_vl")


@pytest.mark.parametrize("model_type", ["llama", "qwen2_vl", "qwen9_vl"])
def test_unsupported_family(copied_folder: Path, model_type: str) -> None:
    change_json(copied_folder / "config.json", lambda c: c.update(model_type=model_type))
    check_error(copied_folder, ValueError, model_type, "supported family: qwen2_5_vl, qwen3_vl")


def test_an_unsupported_family_is_named_before_its_processor_is_missed(copied_folder: Path) -> None:
    change_json(copied_folder / "config.json", lambda c: c.update(model_type="llama"))
    (copied_folder / "processor_config.json").unlink()
    check_error(copied_folder, ValueError, "'llama'")


@pytest.mark.parametrize("name", ["processor_config.json", "tokenizer.json"])
def test_no_processor(copied_folder: Path, name: str) -> None:
    (copied_folder / name).unlink()
    check_error(copied_folder, FileNotFoundError, "processor", "Copy these files")


def test_no_chat_template(copied_folder: Path) -> None:
    (copied_folder / "chat_template.jinja").unlink()
    check_error(copied_folder, FileNotFoundError, "no chat template; copy chat_template.jinja")


def test_no_weights(copied_folder: Path) -> None:
    (copied_folder / "model.safetensors").unlink()
    check_error(copied_folder, FileNotFoundError, "model.safetensors", "policy.weights: random")
    policy = Policy(PolicyConfig(path=str(copied_folder), weights="random"))
    assert policy.eos_ids == (policy.tokenizer.eos_token_id,)


def test_weights_cut_short(copied_folder: Path) -> None:
    file = copied_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    check_error(copied_folder, FileNotFoundError, "no usable weights", "Copy them again")


def test_weights_that_lack_tensors_are_not_filled_with_random_ones(copied_folder: Path) -> None:
    file = copied_folder / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(file).items() if "merger" not in name}
    save_file(kept, file, metadata={"format": "pt"})
    check_error(copied_folder, ValueError, "18 tensors are missing", "from the same model")


def test_weights_of_another_shape(copied_folder: Path) -> None:
    def widen(content: dict[str, Any]) -> None:
        content["text_config"]["intermediate_size"] += 8

    change_json(copied_folder / "config.json", widen)
    check_error(copied_folder, ValueError, "9 have another shape", "mlp.down_proj.weight")


def test_no_end_of_turn_token(copied_folder: Path) -> None:
    change_json(copied_folder / "generation_config.json", lambda c: c.pop("eos_token_id"))
    change_json(copied_folder / "config.json", lambda c: c["text_config"].pop("eos_token_id"))
    change_json(copied_folder / "tokenizer_config.json", lambda c: c.pop("eos_token"))
    with pytest.raises(ValueError, match=r"eos_token_id in its generation_config\.json"):
        Policy(PolicyConfig(path=str(copied_folder)))


def test_every_declared_end_of_turn_token_ends_a_response(copied_folder: Path) -> None:
    change_json(copied_folder / "generation_config.json", lambda c: c.update(eos_token_id=[0, 2]))
    assert Policy(PolicyConfig(path=str(copied_folder))).eos_ids == (0, 2)


def test_dtype_attention_and_mode(load_policy: Callable[..., Policy]) -> None:
    policy = load_policy("qwen3_vl", dtype="bfloat16", attention="eager")
    assert {p.dtype for p in policy.parameters()} == {torch.bfloat16}
    assert policy.model.config._attn_implementation == "eager"
    assert policy.training
    assert policy.model.training  # from_pretrained leaves it in evaluation mode


def test_random_weights_are_new_ones(load_policy: Callable[..., Policy]) -> None:
    torch.manual_seed(1)
    random = load_policy("qwen3_vl", weights="random")
    pretrained = load_policy("qwen3_vl")
    assert not torch.equal(random.model.lm_head.weight, pretrained.model.lm_head.weight)


def test_save_and_load_again(
    load_policy: Callable[..., Policy], family: str, tmp_path: Path
) -> None:
    policy = load_policy(family)
    with torch.no_grad():
        policy.model.lm_head.weight += 0.5
    policy.model.save_pretrained(tmp_path)
    policy.processor.save_pretrained(tmp_path)
    again = Policy(PolicyConfig(path=str(tmp_path)))
    for (name, old), (_, new) in zip(
        policy.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(old, new), name
    assert again.eos_ids == policy.eos_ids
    assert again.processor.chat_template == policy.processor.chat_template


def test_the_published_layout_loads(copied_folder: Path) -> None:
    """File names and keys of the hub's folders: rope_scaling, preprocessor_config.json."""

    def publish(content: dict[str, Any]) -> None:
        rope = content["text_config"].pop("rope_parameters")
        content["text_config"]["rope_theta"] = rope.pop("rope_theta")
        content["text_config"]["rope_scaling"] = rope

    now = Policy(PolicyConfig(path=str(copied_folder)))
    change_json(copied_folder / "config.json", publish)
    processor = json.loads((copied_folder / "processor_config.json").read_text())
    for part, name in (("image", "preprocessor"), ("video", "video_preprocessor")):
        content = processor[f"{part}_processor"] | {"processor_class": "Qwen3VLProcessor"}
        (copied_folder / f"{name}_config.json").write_text(json.dumps(content))
    (copied_folder / "processor_config.json").unlink()
    template = (copied_folder / "chat_template.jinja").read_text()
    (copied_folder / "chat_template.jinja").unlink()
    (copied_folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))

    published = Policy(PolicyConfig(path=str(copied_folder)))
    assert type(published.processor) is type(now.processor)
    assert published.processor.chat_template == template
    for part in ("image_processor", "video_processor"):
        before, after = getattr(now.processor, part), getattr(published.processor, part)
        assert type(after) is type(before)
        assert after.size == before.size
        assert after.patch_size == before.patch_size
    old, new = (p.model.config.text_config.rope_parameters for p in (now, published))
    assert old == new


def test_on_the_meta_device_nothing_is_read(
    family: str, model_folder: Callable[[str], Path], load_policy: Callable[..., Policy]
) -> None:
    policy, config = load_policy(family), PolicyConfig(path=str(model_folder(family)))
    with torch.device("meta"):
        shapes = Policy(config)
    assert shapes.eos_ids == policy.eos_ids
    for kind in ("named_parameters", "named_buffers"):
        found, wanted = dict(getattr(shapes, kind)()), dict(getattr(policy, kind)())
        assert list(found) == list(wanted)  # a tied head once
        for name, value in found.items():
            assert value.is_meta
            assert (value.shape, value.dtype) == (wanted[name].shape, wanted[name].dtype), name
    shapes.to_empty(device="cpu")
    assert not any(value.is_meta for value in (*shapes.parameters(), *shapes.buffers()))
