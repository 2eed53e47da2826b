"""A training checkpoint to a Hugging Face folder.

Reading order: safe_load.py, zero.py, checkpoint.py, assemble.py, folder.py, export.py.
"""

from sapo_vl.export.export import export_checkpoint

__all__ = ["export_checkpoint"]
