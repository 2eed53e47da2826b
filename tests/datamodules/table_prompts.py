"""A source's samples as prompts, and what a bad row of it is told."""

import pytest
from strict_sets import strict_sets

from datamodules.making import make_shards
from datamodules.samples import read_sample
from datamodules.shards import ShardIndex, expand_shards
from datamodules.sources.catalogue import Request, source_sets


def prompts(source, tmp_path, **request):
    """Write the shards of a source and read them back."""
    (one,) = source_sets(source, Request(name="mine", **request))
    (made,) = make_shards(one, tmp_path / "out")
    index = ShardIndex(expand_shards([str(path) for path in made.paths]))
    return [read_sample(index.read(i), key=index.keys[i]) for i in range(len(index))]


def fault(source, **request):
    ((_, samples),) = strict_sets(source, Request(name="mine", **request))
    with pytest.raises(ValueError, match=r"\w") as caught:
        list(samples)
    return str(caught.value)
