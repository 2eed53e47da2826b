"""The prompts that a public set comes to."""

import pytest
from strict_sets import strict_sets

from datamodules.making import make_shards
from datamodules.samples import read_sample
from datamodules.shards import ShardIndex, check_shards
from datamodules.sources.catalogue import Request, source_sets
from sapo_vl.verifiers import VERIFIERS


def prompts(name, data, tmp_path, **request):
    (one,) = source_sets(name, Request(data=data, **request))
    (made,) = make_shards(one, tmp_path / "out")
    assert check_shards(tmp_path / "out")["ok"]
    assert made.manifest["licence"]
    index = ShardIndex([str(path) for path in made.paths])
    found = [read_sample(index.read(i), key=index.keys[i]) for i in range(len(index))]
    for prompt in found:
        rule = VERIFIERS["choice" if prompt.options else one.described.verifier]()
        assert rule.check_reference(prompt) is None
    return found


def fault(name, data):
    ((_, samples),) = strict_sets(name, Request(data=data))
    with pytest.raises(ValueError, match=r"row|line|entry") as caught:
        list(samples)
    return str(caught.value)


def text_of(prompt):
    content = prompt.messages[-1]["content"]
    return "".join(part.get("text", "[image]") for part in content)
