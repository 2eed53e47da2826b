"""Speed and memory side by side: shared prefix, repeated prompts, and TRL as the peer.

Reading order: cases.py (what is measured), models.py and prompts.py (on what), ours.py and peer.py
(the two sides), measure.py and memory.py (how), suite.py (one case), table.py and plot.py (what
comes out). ``scripts/bench.py`` is the way in. reading.py measures how prompts are read
(``scripts/bench_data.py``), rollouts.py the sampler alone (``scripts/bench_rollout.py``).
"""
