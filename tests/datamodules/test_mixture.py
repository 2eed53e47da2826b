from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from datamodules.mixture import batch_places, counts_after, sample_number, worst_window

KNOWN = [
    ((1.0,), 7),
    ((0.5, 0.5), 3),
    ((0.1, 0.2, 0.7), 10),
    ((0.1, 0.2, 0.7), 8),
    ((0.1, 0.2, 0.7), 1),
    ((0.2,) * 5, 32),
    ((1, 1, 1), 4),
    ((0.97, 0.01, 0.01, 0.01), 4),
    ((0.1, 0.3, 0.6), 2),  # totals by largest remainder would go from 1, 1, 2 to 0, 2, 4
    ((0.001, 0.002, 0.997), 16),
    ((1e-9, 1.0), 8),
    ((3, 5, 7, 11, 13), 6),
    ((0.9, 0.8, 0.7, 0.6), 3),
    ((1 / 3, 2 / 3), 5),
]


def random_shares(seed):
    rng = random.Random(seed)
    size = rng.randint(2, 8)
    drawn = [round(rng.random() ** 3 + 1e-4, 4) for _ in range(size)]
    return tuple(drawn), rng.choice([1, 2, 3, 5, 8, 13, 32])


def exact(shares, prompts):
    parts = [Fraction(str(share)) for share in shares]
    return [prompts * part / sum(parts) for part in parts]


def test_whole_shares_are_exact_in_every_batch():
    assert counts_after([0.5, 0.3, 0.2], 8, 1) == [4, 2, 2]
    for iteration in range(5):
        assert counts_after([0.1, 0.2, 0.7], 10, iteration) == [
            iteration,
            2 * iteration,
            7 * iteration,
        ]


def test_what_remains_goes_to_the_largest_remainders():
    assert counts_after([0.5, 0.3, 0.2], 1, 1) == [1, 0, 0]
    assert counts_after([0.45, 0.3, 0.25], 10, 1) == [5, 3, 2]  # 4.5, 3.0, 2.5: first of a tie
    assert counts_after([1, 1, 1], 4, 1) == [2, 1, 1]


@pytest.mark.parametrize(
    ("shares", "prompts"), [*KNOWN, *(random_shares(seed) for seed in range(150))]
)
def test_counts_follow_the_shares(shares, prompts):
    wanted = exact(shares, prompts)
    before = [0] * len(shares)
    for iterations in range(1, 80):
        counts = counts_after(shares, prompts, iterations)
        assert sum(counts) == prompts * iterations
        for count, last, share in zip(counts, before, wanted, strict=True):
            assert abs(count - share * iterations) < 1  # in total
            assert count >= last  # nothing is taken back
            assert abs(count - last - share) < 1  # in this batch
        before = counts


def test_counts_far_into_a_run_need_no_walk_through_it():
    counts = counts_after([0.1, 0.2, 0.7], 8, 10**12 + 3)
    assert sum(counts) == 8 * (10**12 + 3)
    for count, share in zip(counts, exact((0.1, 0.2, 0.7), 8), strict=True):
        assert abs(count - share * (10**12 + 3)) < 1


def schedule_with_windows_below_one(rests, batches):
    """Search all ways to deal out the prompts above the whole ones; None: every way fails.

    A window of one batch below one leaves each task its share rounded down or up, so that it is
    enough to choose who gets one more. Errors in units of 1 / period keep the search exact.
    """
    period = math.lcm(*(rest.denominator for rest in rests))
    steps = [int(rest * period) for rest in rests]
    extra = sum(steps) // period
    choices = list(itertools.combinations(range(len(rests)), extra))

    def search(chosen, errors, low, high):
        if len(chosen) == batches:
            return chosen
        for choice in choices:
            new = [errors[i] - steps[i] + period * (i in choice) for i in range(len(rests))]
            lows, highs = list(map(min, low, new)), list(map(max, high, new))
            if all(h - lo < period for lo, h in zip(lows, highs, strict=True)):
                found = search([*chosen, choice], new, lows, highs)
                if found is not None:
                    return found
        return None

    zero = [0] * len(rests)
    return search([], zero, zero, zero)


def test_no_rule_keeps_every_window_of_three_tasks_below_one():
    rests = [x % 1 for x in exact((0.6, 0.25, 0.15), 7)]
    assert rests == [Fraction(1, 5), Fraction(3, 4), Fraction(1, 20)]
    assert schedule_with_windows_below_one(rests, 20) is None
    assert worst_window((0.6, 0.25, 0.15), 7) == pytest.approx(1.4)


# Fraenkel's rests, tasks that take turns, a task without a rest, and rests that add up to two.
POSSIBLE = [
    ((0.6, 0.4), 7),
    ((0.123, 0.877), 7),
    ((0.5, 0.3, 0.2), 64),
    ((4, 2, 1), 64),
    ((8, 4, 2, 1), 16),
    ((1, 1, 4), 1),
    ((1, 1, 2, 2, 4), 11),
    ((2, 1, 1, 2, 6), 13),
    ((3, 1, 2, 1, 3), 13),
    ((1,) * 7, 3),
]


@pytest.mark.parametrize(("shares", "prompts"), POSSIBLE)
def test_every_window_is_off_by_less_than_one_where_that_can_be(shares, prompts):
    assert worst_window(shares, prompts) < 1
    wanted = exact(shares, prompts)
    totals = [counts_after(shares, prompts, t) for t in range(120)]
    for start, stop in itertools.combinations(range(120), 2):
        for before, after, share in zip(totals[start], totals[stop], wanted, strict=True):
            assert abs(after - before - share * (stop - start)) < 1


@pytest.mark.parametrize("seed", range(40))
def test_three_tasks_are_off_by_one_only_where_every_rule_is(seed):
    rng = random.Random(seed)
    first, second = sorted(rng.sample(range(1, 12), 2))
    shares, prompts = (first, second - first, 12 - second), rng.randint(1, 16)
    rests = [x % 1 for x in exact(shares, prompts)]
    possible = schedule_with_windows_below_one(rests, 12) is not None
    assert (worst_window(shares, prompts) < 1) == possible


@pytest.mark.parametrize("seed", range(12))
def test_the_worst_window_is_below_two_and_zero_without_rests(seed):
    shares, prompts = random_shares(seed)
    whole = all(x.denominator == 1 for x in exact(shares, prompts))
    assert (worst_window(shares, prompts) == 0) == whole
    assert worst_window(shares, prompts) < 2


@pytest.mark.parametrize(("shares", "prompts"), KNOWN)
def test_places_are_numbered_through_and_no_ordinal_is_lost(shares, prompts):
    places = [p for i in range(60) for p in batch_places(shares, prompts, i)]
    assert [p.index for p in places] == list(range(60 * prompts))
    for task in range(len(shares)):
        ordinals = sorted(p.ordinal for p in places if p.task == task)
        assert ordinals == list(range(len(ordinals)))


def test_places_do_not_depend_on_what_was_asked_before():
    later = batch_places((0.3, 0.33, 0.37), 7, 41)
    for iteration in (60, 3, 41):
        again = batch_places((0.3, 0.33, 0.37), 7, iteration)
    assert again == later


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.25,) * 4, (0.1, 0.2, 0.7), (0.6, 0.4)])
def test_every_stretch_of_a_batch_holds_the_shares(shares, ranks):
    places = batch_places(shares, 64, 5)
    size = 64 // ranks
    for rank in range(ranks):
        part = [p.task for p in places[rank * size : (rank + 1) * size]]
        for task, share in enumerate(exact(shares, size)):
            assert abs(part.count(task) - share) < 2


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_every_epoch_of_a_task_is_a_permutation(size):
    for epoch in range(3):
        numbers = [sample_number(0, 1, epoch * size + i, size) for i in range(size)]
        assert sorted(numbers) == list(range(size))


def test_epochs_tasks_and_seeds_differ_in_their_order_and_nothing_else_does():
    def order(seed=0, task=0, epoch=0):
        return [sample_number(seed, task, epoch * 50 + i, 50) for i in range(50)]

    assert order() == order()
    orders = [order(), order(seed=1), order(task=1), order(epoch=1)]
    assert len({tuple(one) for one in orders}) == 4


def test_tasks_of_different_size_go_round_at_their_own_pace():
    sizes = (3, 50)
    seen: list[list[int]] = [[], []]
    for iteration in range(30):
        for place in batch_places((0.5, 0.5), 4, iteration):
            number = sample_number(0, place.task, place.ordinal, sizes[place.task])
            seen[place.task].append(number)
    for numbers, size in zip(seen, sizes, strict=True):
        assert len(numbers) == 60
        for start in range(0, 60 - size + 1, size):
            assert sorted(numbers[start : start + size]) == list(range(size))


def test_substitutes_are_drawn_anew_at_every_attempt_and_repeatably():
    drawn = [sample_number(0, 0, 7, 100, attempt) for attempt in range(50)]
    assert drawn == [sample_number(0, 0, 7, 100, attempt) for attempt in range(50)]
    assert all(0 <= number < 100 for number in drawn)
    assert len(set(drawn)) > 25


def adjacent(order):
    """Correlation of the original positions of neighbours in a shuffled order."""
    return float(np.corrcoef(order[:-1], order[1:])[0, 1])


def test_neighbours_in_an_epoch_are_as_unrelated_as_in_any_permutation():
    size, epochs = 2000, 20
    bound = 4 / math.sqrt(size)  # four standard deviations of a random permutation's
    ours = [
        [sample_number(3, 0, epoch * size + i, size) for i in range(size)]
        for epoch in range(epochs)
    ]
    assert all(abs(adjacent(order)) < bound for order in ours)
    assert abs(np.mean([adjacent(order) for order in ours])) < bound / math.sqrt(epochs)
    distance = np.mean([np.abs(np.diff(order)).mean() for order in ours])
    assert distance == pytest.approx((size + 1) / 3, rel=0.02)
    # Neighbours in one epoch are not neighbours in the next.
    places = [np.argsort(order) for order in ours[:2]]
    assert abs(np.corrcoef(*places)[0, 1]) < bound
    # The same statistic sees a shuffle buffer of 100 samples.
    rng = random.Random(0)
    assert adjacent(buffered(range(size), 100, rng)) > 0.9


def buffered(stream, length, rng):
    """The order that a shuffle buffer makes."""
    held, order = [], []
    for number in stream:
        held.append(number)
        if len(held) > length:
            order.append(held.pop(rng.randrange(len(held))))
    rng.shuffle(held)
    return order + held
