"""What a run will need, before it is paid for: memory per GPU and the arithmetic of its batches.

Reading order: architecture.py, shape.py, settings.py, sharding.py, then the terms (states.py,
saved.py, activations.py, rollout.py), and plan.py that puts them together.
"""

from sapo_vl.plan.architecture import load_architecture, meta_model, published_names

__all__ = ["load_architecture", "meta_model", "published_names"]
