"""A policy that optimises a verifier's score without ever seeing a reference.

It plays the part of a model that is trained on the reward for a million samples: whatever it finds
that pays better than honest guessing, a real policy would find as well. Reading order: `targets`,
`grammar`, `search`, `report`.
"""
