"""The options that say which model is measured, the same for every script that builds one."""

from __future__ import annotations

import argparse

from sapo_vl.bench.cases import ModelSpec


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `chosen_model` reads; their defaults are those of `ModelSpec`."""
    default = ModelSpec()
    parser.add_argument(
        "--vocabulary", type=int, default=default.vocabulary, help="151936 is Qwen's"
    )
    parser.add_argument("--family", default=default.family, choices=("qwen2_5_vl", "qwen3_vl"))
    parser.add_argument("--dtype", default=default.dtype, choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=default.threads)
    parser.add_argument(
        "--hidden", type=int, default=default.hidden, help="width of model and vision tower"
    )
    parser.add_argument("--layers", type=int, default=default.layers, help="layers of each")


def chosen_model(given: argparse.Namespace) -> ModelSpec:
    """The model that the options of `add_model_options` describe."""
    return ModelSpec(
        family=given.family,
        vocabulary=given.vocabulary,
        hidden=given.hidden,
        layers=given.layers,
        dtype=given.dtype,
        threads=given.threads,
    )
