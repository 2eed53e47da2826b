"""Keep the libraries' notes and progress bars out of a benchmark's output."""

from __future__ import annotations

import logging
import os
import warnings


def quiet_libraries() -> None:
    """Leave only our own progress; also: nothing is looked up on a hub, all files are local."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Imported here: it reads the variable at import.
    import transformers

    warnings.simplefilter("ignore", FutureWarning)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("sapo_vl.bench").setLevel(logging.INFO)
