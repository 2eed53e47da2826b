"""Methods that sapo_vl's trainer calls on the workers of a vLLM server.

Named at the server's start by ``--worker-extension-cls sapo_vl_worker.PolicyWorker``, with this
file's folder on PYTHONPATH (``scripts/vllm_server.sh`` does both). vLLM lives in an environment of
its own, so this imports nothing of sapo_vl. Written against vLLM 0.32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class PolicyWorker:
    """Mixed into vLLM's worker class, which brings ``model_runner`` and ``reload_weights``."""

    model_runner: Any
    vllm_config: Any
    reload_weights: Any

    def describe_policy(self) -> dict[str, Any]:
        """What is served, for the trainer to compare with what it trains."""
        from vllm import __version__

        model = self.vllm_config.model_config
        text = model.hf_config.get_text_config()
        return {
            "version": __version__,
            "model_type": model.hf_config.model_type,
            "hidden_size": text.hidden_size,
            "num_hidden_layers": text.num_hidden_layers,
            "vocab_size": text.vocab_size,
            "dtype": str(model.dtype).removeprefix("torch."),
            "logprobs_mode": str(model.logprobs_mode),
            "device_normalize": bool(model.get_multimodal_config().mm_device_do_normalize),
            "max_model_len": model.max_model_len,
            "max_num_seqs": self.vllm_config.scheduler_config.max_num_seqs,
        }

    def load_policy(self, folder: str) -> None:
        """Take the weights of a Hugging Face folder that every worker can read."""
        if not Path(folder).is_dir():  # vLLM would take it for a name on a hub
            raise FileNotFoundError(f"the server's host sees no folder {folder}")
        self.reload_weights(weights_path=folder)
        if self.model_runner.device.type == "cpu":
            _repack_tied_head(self.model_runner.get_model())


def _repack_tied_head(model: Any) -> None:
    """Renew the copy of a tied embedding that vLLM's CPU head computes with.

    A reload leaves it as it was: the new body under the old head.
    """
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    language = getattr(model, "language_model", model)
    if language.config.tie_word_embeddings:
        dispatch_cpu_unquantized_gemm(language.lm_head, remove_weight=False)
