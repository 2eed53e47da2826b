"""Write a new model folder: python scripts/build_model.py MODEL.yaml OUT_DIR --texts SHARDS."""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a checkout as well

from datamodules.shards import ShardIndex, expand_shards
from sapo_vl.policy.model_file import build_from_file


def main() -> None:
    """Train the tokenizer on the shards' texts, draw weights, save all in Hugging Face layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a YAML file like configs/quickstart/model.yaml")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--texts", required=True, help="shards whose texts to use")
    parser.add_argument("--seed", type=int, help="of the weights; that of the file by default")
    args = parser.parse_args()

    try:
        index = ShardIndex(expand_shards(args.texts))
        samples = (json.loads(index.read(number)["json"]) for number in range(len(index)))
        texts = (f"{s['question']}\n{s.get('response', s['answer'])}" for s in samples)
        parameters = build_from_file(args.config, texts, args.out, seed=args.seed)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{args.out}: {parameters:,} parameters")


if __name__ == "__main__":
    main()
