"""How often the two-sample test behind judge cards takes images for others: of the same kind, and of another one.

    python benchmarks/image_samples.py

Everything is drawn from the samples in the cards that come with verism; nothing is rendered or generated.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from verism.cards import ImageSample, JudgeCard, shipped_cards
from verism.pipeline.image_samples import ALPHA, image_match


def rejected(card: JudgeCard, theirs: ImageSample, n: int, trials: int) -> float:
    """Share of draws of ``n`` images that are found unlike the card's; a card's own images are taken out of it."""
    rng = np.random.default_rng(n)
    found = 0
    for _ in range(trials):
        order = rng.permutation(len(theirs.features))
        drawn = replace(theirs, features=tuple(theirs.features[k] for k in order[:n]))
        others = tuple(
            replace(sample, features=tuple(theirs.features[k] for k in order[n:])) if sample is theirs else sample
            for sample in card.images
        )
        found += image_match(replace(card, images=others), drawn).state == "unlike"
    return found / trials


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="draws for each line")
    trials = parser.parse_args().trials
    cards = [card for card in shipped_cards() if card.images]
    print(f"found unlike at p <= {ALPHA}, {trials} draws each")
    for card in cards:
        for other in cards:
            theirs = other.images[0]
            for n in (8, 12, 24, 40):
                share = rejected(card, theirs, n, trials)
                print(f"card of {card.images[0].generator}, {n} images of {theirs.generator}: {100 * share:.1f} %")


if __name__ == "__main__":
    main()
