"""Export from Lightning's checkpoint files: the same model, in the published layout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from export_checks import loaded, merged_by_hand
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from sapo_vl.export import export_checkpoint
from sapo_vl.export.export import main
from sapo_vl.export.folder import whole_folder
from sapo_vl.modules.base import PolicyModule
from sapo_vl.policy import AdapterConfig, Policy, PolicyConfig

ROOT = Path(__file__).resolve().parents[2]
LORA = AdapterConfig(rank=4, alpha=8)


def trained(folder: Path, path: Path, **options: Any) -> Policy:
    """A policy that has moved, and its checkpoint at ``path`` as Lightning writes it."""
    torch.manual_seed(0)
    module = PolicyModule(PolicyConfig(path=str(folder), **options))
    module.configure_model()
    with torch.no_grad():
        for parameter in module.policy.parameters():
            if parameter.requires_grad:
                parameter += 0.05 * torch.randn_like(parameter)
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict(), "global_step": 3}
    module.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, path)
    return module.policy


def same_weights(first: Any, second: Any) -> None:
    own, other = dict(first.named_parameters()), dict(second.named_parameters())
    assert own.keys() == other.keys()
    for name, value in own.items():
        assert value.dtype == other[name].dtype
        assert torch.equal(value, other[name]), name


def keys(folder: Path) -> dict[str, list[int]]:
    """Names and shapes of the tensors in a folder's files."""
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found |= {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_round_trip_to_the_bit_in_the_layout_of_the_base(
    model_folder: Callable[[str], Path], family: str, dtype: str, tmp_path: Path
) -> None:
    base = model_folder(family)
    policy = trained(base, tmp_path / "a.ckpt", dtype=dtype)
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    same_weights(loaded(tmp_path / "hf"), policy.model)
    assert keys(tmp_path / "hf") == keys(base)
    names = {p.name for p in base.iterdir()}
    assert {p.name for p in (tmp_path / "hf").iterdir()} == names
    for name in ("generation_config.json", "chat_template.jinja", "processor_config.json"):
        assert (tmp_path / "hf" / name).read_text() == (base / name).read_text()
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["dtype"] == dtype


def test_published_keys_of_qwen2_5_vl(model_folder: Callable[[str], Path], tmp_path: Path) -> None:
    trained(model_folder("qwen2_5_vl"), tmp_path / "a.ckpt")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    found = keys(tmp_path / "hf")
    assert {"visual.patch_embed.proj.weight", "model.embed_tokens.weight"} <= found.keys()
    assert {name.split(".")[0] for name in found} == {"visual", "model", "lm_head"}


def test_published_experts_of_qwen3_vl_moe(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    """Packed, [experts, in, out], the other way around than in memory."""
    policy = trained(model_folder("qwen3_vl_moe"), tmp_path / "a.ckpt")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    name = "model.language_model.layers.0.mlp.experts.gate_up_proj"
    assert keys(tmp_path / "hf")[name] == [4, 64, 2 * 48]
    written = load_file(tmp_path / "hf/model.safetensors")[name]
    assert torch.equal(written.transpose(1, 2), policy.model.get_parameter(name))


def test_tied_weights_are_written_once(model_folder: Callable[[str], Path], tmp_path: Path) -> None:
    trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    assert "lm_head.weight" not in keys(tmp_path / "hf")
    model = loaded(tmp_path / "hf")
    assert model.lm_head.weight is model.model.language_model.embed_tokens.weight


def test_shards_and_another_dtype(model_folder: Callable[[str], Path], tmp_path: Path) -> None:
    policy = trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt")
    export_checkpoint(
        tmp_path / "a.ckpt", tmp_path / "hf", dtype="bfloat16", max_shard_size="200KB"
    )
    assert len(list((tmp_path / "hf").glob("model-0*.safetensors"))) > 1
    assert (tmp_path / "hf/model.safetensors.index.json").is_file()
    same_weights(loaded(tmp_path / "hf"), policy.model.to(torch.bfloat16))


@pytest.mark.parametrize(
    ("family", "lora"),
    [
        ("qwen3_vl", AdapterConfig(rank=4, alpha=8, parts=["vision", "merger", "language"])),
        ("qwen2_5_vl", LORA),
        ("qwen3_5", LORA),
        ("qwen3_vl_moe", LORA),
    ],
)
def test_merged_and_separate_adapters(
    model_folder: Callable[[str], Path], family: str, lora: AdapterConfig, tmp_path: Path
) -> None:
    policy = trained(model_folder(family), tmp_path / "a.ckpt", lora=lora)
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "merged")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "adapter", adapter=True)
    merged = loaded(tmp_path / "merged")
    expected = merged_by_hand(dict(policy.model.named_parameters()), scale=8 / 4)
    for name, value in merged.named_parameters():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-7, msg=name)
    assert keys(tmp_path / "merged") == keys(model_folder(family))

    base = AutoModelForImageTextToText.from_pretrained(model_folder(family))
    adapted = PeftModel.from_pretrained(base, tmp_path / "adapter")
    same_weights(adapted.base_model.model, policy.model)
    assert keys(tmp_path / "adapter").keys() == {
        f"base_model.model.{name.replace('.default', '')}"
        for name, _ in policy.model.named_parameters()
        if ".lora_" in name
    }


def test_merged_experts_answer_as_the_adapters_do(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    lora = AdapterConfig(rank=4, alpha=8, targets=["q_proj", "gate_up_proj", "down_proj"])
    policy = trained(model_folder("qwen3_vl_moe"), tmp_path / "a.ckpt", lora=lora)
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    merged, ids = loaded(tmp_path / "hf"), torch.arange(20, 40)[None]
    with torch.no_grad():
        own, other = policy.model(input_ids=ids).logits, merged(input_ids=ids).logits
        with policy.reference():
            assert (policy.model(input_ids=ids).logits - own).abs().max() > 1e-2
    assert (own - other).abs().max() < 1e-4


def test_a_bfloat16_merge_is_rounded_once(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    policy = trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt", lora=LORA, dtype="bfloat16")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    weights = {n: p.detach().float() for n, p in policy.model.named_parameters()}
    expected = merged_by_hand(weights, scale=8 / 4)
    for name, value in loaded(tmp_path / "hf").named_parameters():
        rounded = expected[name].to(torch.bfloat16)
        assert (value != rounded).float().mean() < 1e-3, name  # a tie may fall either way


def test_quantized_base_is_merged_as_it_was_trained_on(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    policy = trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt", lora=LORA, quantize="nf4")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    merged, ids = loaded(tmp_path / "hf"), torch.arange(20, 40)[None]
    with torch.no_grad():
        own, other = policy.model(input_ids=ids).logits, merged(input_ids=ids).logits
    assert (own - other).abs().max() < 1e-4
    assert "quantization_config" not in json.loads((tmp_path / "hf/config.json").read_text())


def test_a_folder_is_refused_when_something_is_in_it(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt")
    (tmp_path / "hf").mkdir()
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")  # empty: taken
    with pytest.raises(FileExistsError, match="hf is there already"):
        export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf", replace=True)
    loaded(tmp_path / "hf")


def test_an_interrupted_export_leaves_nothing(
    model_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt")
    processor = "transformers.Qwen3VLProcessor.save_pretrained"

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt  # when the weights are written already

    monkeypatch.setattr(processor, stop)
    with pytest.raises(KeyboardInterrupt):
        export_checkpoint(tmp_path / "a.ckpt", tmp_path / "hf")
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]


def test_a_killed_export_leaves_no_folder_of_that_name(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with whole_folder(tmp_path / "hf") as part:
            (part / "model.safetensors").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert not (tmp_path / "hf").exists()
    (left,) = tmp_path.iterdir()
    assert left.name == f".hf.{child}.partial"
    with whole_folder(tmp_path / "hf") as part:  # and is in nobody's way
        (part / "a").write_text("whole")
    assert (tmp_path / "hf/a").read_text() == "whole"


def test_what_is_no_checkpoint_is_named(
    model_folder: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.ckpt").write_text("hello")
    (tmp_path / "empty").mkdir()
    torch.save({"state_dict": {"layer.weight": torch.zeros(2)}}, tmp_path / "other.ckpt")
    torch.save([1], tmp_path / "list.ckpt")
    torch.save({"code": subprocess.run}, tmp_path / "code.ckpt")
    for name, message in {
        "gone.ckpt": "no checkpoint",
        "text.ckpt": "no checkpoint that can be read safely",
        "empty": "no checkpoint folder of DeepSpeed's",
        "other.ckpt": "no weights of a policy",
        "list.ckpt": "holds a list",
        "code.ckpt": "never unpickled",
    }.items():
        assert main([str(tmp_path / name), str(tmp_path / "hf")]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "hf").exists()


def test_a_base_that_is_gone_or_another_is_named(
    model_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "a.ckpt"
    policy = trained(model_folder("qwen3_vl"), path)
    checkpoint = torch.load(path, weights_only=True)
    config = asdict(policy.config) | {"path": str(tmp_path / "moved")}
    torch.save(checkpoint | {"policy": {"config": config}}, path)
    with pytest.raises(FileNotFoundError, match=r"no model folder.*moved"):
        export_checkpoint(path, tmp_path / "hf")
    with pytest.raises(ValueError, match="another architecture"):
        export_checkpoint(path, tmp_path / "hf", base=str(model_folder("qwen3_5")))
    export_checkpoint(path, tmp_path / "hf", base=str(model_folder("qwen3_vl")))
    same_weights(loaded(tmp_path / "hf"), policy.model)

    with pytest.raises(ValueError, match="has no adapters"):
        export_checkpoint(path, tmp_path / "x", adapter=True, base=str(model_folder("qwen3_vl")))
    del checkpoint["policy"]  # as an early version wrote it
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match="--base"):
        export_checkpoint(path, tmp_path / "x")
    assert {p.name for p in tmp_path.iterdir()} == {"a.ckpt", "hf"}


def test_the_script(model_folder: Callable[[str], Path], tmp_path: Path) -> None:
    policy = trained(model_folder("qwen3_vl"), tmp_path / "a.ckpt")
    script = [sys.executable, str(ROOT / "scripts/export.py")]
    done = subprocess.run(
        [*script, str(tmp_path / "a.ckpt"), str(tmp_path / "hf")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    same_weights(loaded(tmp_path / "hf"), policy.model)
