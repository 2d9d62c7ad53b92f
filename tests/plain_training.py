"""The chapter's training procedure (SPEC section 5) in plain Python: the oracle of `replay`."""

import math
import random
from collections import defaultdict

NAMES = ("start", "known_low", "known_high", "approved", "refunded", "recover", "terminal")
START, KNOWN_LOW, KNOWN_HIGH, APPROVED, REFUNDED, RECOVER, TERMINAL = range(7)
FINISH, LOOKUP, REQUEST_APPROVAL, REFUND = range(4)
TASKS = ((20, START), (80, START), (30, RECOVER), (90, RECOVER))
ROUNDING = 1e-9  # an advantage below it is zero up to rounding


def softmax(row):
    peak = max(row)
    weights = [math.exp(x - peak) for x in row]
    total = sum(weights)
    return [w / total for w in weights]


def move(amount, state, action):
    if action == FINISH:
        return TERMINAL
    if state in (START, RECOVER) and action == LOOKUP:
        return KNOWN_HIGH if amount > 50 else KNOWN_LOW
    if state == KNOWN_HIGH and action == REQUEST_APPROVAL:
        return APPROVED
    if state in (KNOWN_LOW, KNOWN_HIGH, APPROVED, REFUNDED) and action == REFUND:
        return REFUNDED
    return RECOVER


def play(logits, amount, state, generator):
    """One rollout: its (state, action, log probability) and its flags."""
    steps, effects, violation = [], 0, False
    while state != TERMINAL and len(steps) < 7:
        probabilities = softmax(logits[state])
        action = generator.choices(range(4), weights=probabilities, k=1)[0]
        steps.append((state, action, math.log(probabilities[action])))
        after = move(amount, state, action)
        if action == REFUND and after == REFUNDED:
            effects += 1
            violation = violation or state == KNOWN_HIGH
        state = after
    return steps, state == TERMINAL and effects > 0, violation, effects > 1


def price(scorer, steps, success, violation, duplicate):
    reward = (1.0 if success else 0.0) - 0.05 * len(steps)
    if scorer == "outcome":
        return reward, True
    return reward - 2.0 * violation - 1.0 * duplicate, not (violation or duplicate)


def advantages(batch):
    """For each (task, step): the reward standardised among all visits to (task, state)."""
    visits = defaultdict(list)
    for task, steps, reward, _ in batch:
        for state, _, _ in steps:
            visits[task, state].append(reward)
    stats = {}
    for anchor, rewards in visits.items():
        mean = sum(rewards) / len(rewards)
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
        stats[anchor] = mean, std
    for task, steps, reward, eligible in batch:
        for state, action, log_prob in steps:
            mean, std = stats[task, state]
            yield state, action, log_prob, (reward - mean) / (std + 1e-6), eligible


def train(logits, seed, scorer, *, rounds=30, group_size=8, lr=0.04, clip=0.2, epochs=2):
    """A whole run; `undecided` counts clipped rows whose advantage is zero up to rounding."""
    generator = random.Random(seed)
    logits = [list(row) for row in logits] + [[0.0] * 4] * (7 - len(logits))
    success, violation, clipped, undecided = [], [], [0] * epochs, [0] * epochs
    totals = dict(transitions=0, updates=0, vetoed_rollouts=0)
    for _ in range(rounds):
        batch, won, broke = [], 0, 0
        for task, (amount, start) in enumerate(TASKS):
            for _ in range(group_size):
                steps, done, violated, duplicate = play(logits, amount, start, generator)
                won, broke = won + done, broke + violated
                reward, eligible = price(scorer, steps, done, violated, duplicate)
                totals["vetoed_rollouts"] += not eligible
                totals["transitions"] += len(steps)
                batch.append((task, steps, reward, eligible))
        success.append(won / len(batch))
        violation.append(broke / len(batch))
        rows = [row for row in advantages(batch) if row[4]]
        for epoch in range(epochs):
            for state, action, log_prob, advantage, _ in rows:
                probabilities = softmax(logits[state])
                ratio = math.exp(math.log(probabilities[action]) - log_prob)
                outside = ratio > 1 + clip or ratio < 1 - clip
                undecided[epoch] += outside and abs(advantage) < ROUNDING
                if (advantage > 0 and ratio > 1 + clip) or (advantage < 0 and ratio < 1 - clip):
                    clipped[epoch] += 1
                    continue
                totals["updates"] += 1
                step = lr * ratio * advantage
                logits[state] = [
                    z + step * ((a == action) - p)
                    for a, (z, p) in enumerate(zip(logits[state], probabilities, strict=True))
                ]
    return dict(
        success=success,
        violation=violation,
        clipped=clipped,
        undecided=undecided,
        totals=totals,
        final_logits={name: logits[state] for state, name in enumerate(NAMES[:-1])},
    )
