"""The command line: ``sapo-vl fit | validate | test | predict --config A.yaml [...]``."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from typing_extensions import override

from sapo_vl.callbacks import ParityCheck
from sapo_vl.modules.base import PolicyModule
from sapo_vl.strategies.children import ending_children
from sapo_vl.strategies.devices import check_devices


class SapoCLI(LightningCLI):
    """LightningCLI with model and data by class_path; every fit begins with a ParityCheck."""

    @override
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_lightning_class_args(ParityCheck, "parity")  # in every fit, not to be forgotten
        # Said once: the run's seed, and the folder that model and processor come from.
        parser.link_arguments("seed_everything", "model.init_args.seed")
        parser.link_arguments("seed_everything", "data.init_args.seed")
        parser.link_arguments("model.init_args.policy.path", "data.init_args.processor")

    @override
    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        check_devices(self._get(self.config_init, "trainer"))
        return super().instantiate_trainer(**kwargs)

    @override
    def _run_subcommand(self, subcommand: str) -> None:
        with ending_children(self.trainer):
            super()._run_subcommand(subcommand)


def main(args: Any = None) -> None:
    """Run the command line; ``args`` stands in for ``sys.argv`` in tests."""
    build_cli(SapoCLI, args)


def build_cli(kind: type[SapoCLI], args: Any = None) -> SapoCLI:
    """Make a command line of this kind, which parses and runs as it is made."""
    return kind(
        PolicyModule,
        LightningDataModule,
        subclass_mode_model=True,
        subclass_mode_data=True,
        auto_configure_optimizers=False,
        seed_everything_default=0,
        save_config_kwargs={"overwrite": True},
        parser_kwargs={"parser_mode": "yaml"},
        args=args,
    )
