"""Caption metrics beside pycocoevalcap, and the tokeniser beside the Java one.

    python benchmarks/captions.py                  speed: CIDEr, BLEU, ROUGE-L of 5,000 images with 5 references each
    python benchmarks/captions.py speed --images 1000 --json
    python benchmarks/captions.py tokens           how often our words differ from the toolkit's, by kind, with examples
    python benchmarks/captions.py tokens --write tests/metrics/ptb_words.json
    python benchmarks/captions.py java             METEOR through us and through the toolkit

Needs ``pip install --no-deps pycocoevalcap==1.2``; ``tokens`` and ``java`` need Java too. Every
measurement of ``speed`` runs in a process of its own: seconds are the best of ``--repeats``, memory is the rise of the
process's peak during the first.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from measuring import peak_mib

Words = list[str]

METRICS = ("cider", "bleu", "rouge_l")
REFERENCES = 5
VOCABULARY = 10_000
STORED = 140  # captions of each kind kept for the tests: all the marked and odd pieces, some of the others


# ---------------------------------------------------------------------------------------------------------------- speed
def made_up_set(images: int) -> tuple[dict[int, Words], dict[int, list[Words]]]:
    """Candidates and references with the lengths and the uneven word frequencies of real captions."""
    rng = np.random.default_rng(7)
    frequency = 1 / np.arange(1, VOCABULARY + 1)
    candidates, references = {}, {}
    for image in range(images):
        topic = rng.choice(VOCABULARY, 14, p=frequency / frequency.sum())
        drawn = [rng.choice(topic, max(6, round(rng.normal(10.5, 2.4)))) for _ in range(REFERENCES + 1)]
        captions = [[f"w{word}" for word in words] for words in drawn]
        candidates[image], references[image] = captions[0], captions[1:]
    return candidates, references


def ours(metric: str, candidates: Mapping[int, Words], references: Mapping[int, list[Words]]) -> Callable[[], Any]:
    from verism.metrics.captions import bleu, bleu_counts, cider, count_ngrams, rouge_l

    answer, meant = list(candidates.values()), list(references.values())
    if metric == "cider":
        return lambda: cider(count_ngrams(answer, meant))
    if metric == "bleu":
        return lambda: bleu(bleu_counts(count_ngrams(answer, meant)))
    return lambda: rouge_l(answer, meant)


def theirs(metric: str, candidates: Mapping[int, Words], references: Mapping[int, list[Words]]) -> Callable[[], Any]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    answers = {key: [" ".join(words)] for key, words in candidates.items()}
    meant = {key: [" ".join(words) for words in several] for key, several in references.items()}
    scorer = {"cider": Cider, "bleu": Bleu, "rouge_l": Rouge}[metric]()

    def job() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return np.transpose(scorer.compute_score(meant, answers)[1])

    return job


def one(options: argparse.Namespace) -> None:
    """Measure one program on one metric, in this process; the values go to a file."""
    job = {"ours": ours, "theirs": theirs}[options.who](options.metric, *made_up_set(options.images))
    before = peak_mib()
    seconds, values, peak = [], None, 0.0
    for _ in range(options.repeats):
        start = time.perf_counter()
        values = job()
        seconds.append(time.perf_counter() - start)
        peak = peak or peak_mib()
    print(json.dumps({"seconds": min(seconds), "mib": peak - before, "values": np.asarray(values).tolist()}))


def speed(options: argparse.Namespace) -> int:
    rows = []
    for metric in METRICS:
        results = {}
        for who in ("theirs", "ours"):
            command = [sys.executable, __file__, "one", who, metric, str(options.images), str(options.repeats)]
            results[who] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        difference = float(np.abs(np.subtract(results["ours"]["values"], results["theirs"]["values"])).max())
        rows.append(
            {
                "metric": metric,
                "images": options.images,
                "ours_s": results["ours"]["seconds"],
                "theirs_s": results["theirs"]["seconds"],
                "times_faster": results["theirs"]["seconds"] / results["ours"]["seconds"],
                "ours_mib": results["ours"]["mib"],
                "theirs_mib": results["theirs"]["mib"],
                "largest_difference": difference,
            }
        )
    rows.append(tokeniser_speed(options))
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(
                "  ".join(
                    f"{key} {value:.3g}" if isinstance(value, float) else f"{value}" for key, value in row.items()
                )
            )
    return 0 if all(row.get("largest_difference", 0.0) < 1e-6 for row in rows) else 1


def tokeniser_speed(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds for all captions; Java's with its start, as the toolkit pays it, where there is a Java."""
    from verism.metrics.captions import ptb_words

    captions = list(plain_captions(random.Random(1), options.images * (REFERENCES + 1)))
    start = time.perf_counter()
    for caption in captions:
        ptb_words(caption)
    row: dict[str, Any] = {"metric": "words", "captions": len(captions), "ours_s": time.perf_counter() - start}
    with contextlib.suppress(FileNotFoundError):
        start = time.perf_counter()
        java_words(captions)
        row["theirs_s"] = time.perf_counter() - start
        row["times_faster"] = row["theirs_s"] / row["ours_s"]
    return row


# --------------------------------------------------------------------------------------------------------------- tokens
WHO = """
man|woman|boy|girl|child|dog|cat|bird|giraffe|zebra|skier|surfer|chef|player|couple|group|crowd|baby
"""
LOOK = """
young|old|brown|black|white|red|blue|large|small|tall|wet|snow-covered|half-eaten|two-story|well-lit
"""
DOING = """
sitting on|standing near|riding|holding|looking at|walking past|eating|next to|in front of|on top of
leaning against|playing with|carrying|flying over|parked by|laying on|watching
"""
THING = """
table|bench|bicycle|car|skateboard|surfboard|kite|umbrella|train|bus|pizza|sandwich|laptop|cell phone
teddy bear|stop sign|fire hydrant|bowl of fruit|cup of coffee|T-shirt|t.v.|baseball bat|hot dog
"""
WHERE = """
street|kitchen|beach|field|living room|park|city|snow|ocean|bathroom|sidewalk|parking lot|airport
"""

# Pieces with marks, as they are found in captions that people typed: money, times, titles, quotes, contractions ...
MARKED = """
"STOP" | 'no parking' | the man's hat | the dogs' bowls | a child's toy | it's raining | isn't moving | can't see
they're happy | who's there | don't walk | he'll jump | I'm here | you've got mail | cannot see | gonna fall
wanna play | an apple
10:30 | 5 p.m. | at 3pm | 12:15 a.m. | $5 | $1.50 | 50% | 1,000 | 3.5 | #1 | # 7 | No. 5 | no. 12 | 2nd | 21st
1/2 | 1 1/2 cups | 2-3 | half-eaten | two-year-old | black-and-white | black/white | and/or | w/ cheese | w/o shoes
Mr. Smith | Mrs. Jones | Dr. Who | St. Paul | Main St. | the U.S. flag | the U.K. | Washington D.C. | J. Crew
a.m. | etc. | e.g. a cat | i.e. a dog | vs. | Jan. 5 | approx. 10 | Inc. | Co. | Jr. | Ave. | Blvd.
(left) | (a cat) | [sic] | -- a dog | - a dog | ... | wait... | .. | !! | ?! | what?! | wow! | really? | yes; no
one: two | 5 ft. tall
AT&T | R&B | black & white | rock 'n' roll | '80s | 1950's | the 1920s | o'clock | O'Hare | y'all | ma'am
'til | ol' man
“quoted” | ‘single’ | the man’s hat | don’t | a — b | a – b | café | naïve | jalapeño | crème brûlée | piñata
T-shirt | x-ray | e-mail | co-op | Wi-Fi | iPhone | 747 | B-52 | 4x4 | mp3 | 3D | 2x4s | 6" sub | 5'11" | 10-foot
www.example.com | example.com | http://example.com/a | photo.jpg | @home | #sunset | a@b.com | £3 | €20 | ½ | 90° | ♥
street.The dog | dog,cat | dog ,cat | table .  A | red,white and blue | a cat.and | grass.. | man's/woman's | his/her
"""

# Pieces no caption should have, but some do.
ODD = """
:) | :-( | ;D | <3 | ^_^ | &amp; | &quot;hi&quot; | <b>bold</b> | -> | => | *cat* | ** | _dog_ | a_b | ~10 | a+b | c++
a|b | \\ | ^ | = | @ | # | $ | % | & | 100,00 | 1.5kg | 10.30pm | 555-1212 | (555) 555-1212 | 1-800-555-1212 | +5 | -5
3-4-5 | 5- | -foo | foo- | foo--bar | a---b | ----- | ..... | !!!! | ?? | '' | `a` | "a | a" | 'a | a' | it''s | a"b
rock'n'roll | dog'food | d'oh | l'eau | j'adore | jack-o'-lantern | s'mores | 'em | 'cause | 'nuff | c'mon | hawai'i
shouldn't've | y'all're | wouldn'ta | Sept.-Oct. | mid-Sept. | U.S.-based | anti-U.S. | Ph.D. | a.b.c | A. man | x.y
US$5 | C$5 | $5/lb | $5-$10 | 5¢ | ¥5 | 10%-20% | 3/4" | 1.5-inch | 1-1/2 | 1.5/2 | 5:30-6:30 | 12/25/2010 | 24/7
東京 | Москва | 日本語 | emoji 😀 | ™ | © | × | − | … | « a » | 5′ | ´ | dog´s | a‑b | ﬁre | x² | № 5 | ¿que? | ok。
foo.txt | img_01.jpg | 1.jpg | foo.2 | no.1 | fig. 5 | fig. | a/b/c | /a/ | a// | s/he | 1/b | a.com/b | bit.ly/x | ftp://a.b
"""


def entries(listed: str) -> list[str]:
    return [entry for line in listed.split("\n") for piece in line.split("|") if (entry := piece.strip())]


def plain_captions(rng: random.Random, count: int) -> Iterator[str]:
    """Captions as most are: words, commas and a full stop, or none."""
    who, look, doing, item, where = map(entries, (WHO, LOOK, DOING, THING, WHERE))
    for _ in range(count):
        words = [rng.choice(["a", "the", "two", "some", "an", "one"]), rng.choice(look) * (rng.random() < 0.5)]
        words += [rng.choice(who), rng.choice(doing), "a", rng.choice(look) * (rng.random() < 0.3), rng.choice(item)]
        words += rng.choice([[], ["in", "the", rng.choice(where)], [", and", "a", rng.choice(who)]])
        text = " ".join(word for word in words if word).replace(" ,", ",")
        yield text[0].upper() + text[1:] + rng.choice([".", ".", ".", "", " .", ". "])


def inserted(rng: random.Random, listed: str, count: int) -> Iterator[str]:
    """Plain captions with one of the pieces at their start, inside, or at their end; each piece in turn."""
    pieces = entries(listed)
    for number, caption in enumerate(plain_captions(rng, count)):
        piece, words = pieces[number % len(pieces)], caption.split(" ")
        position = rng.choice([0, len(words) // 2, len(words) // 2, len(words)])
        yield " ".join([*words[:position], piece, *words[position:]])


def mistyped(rng: random.Random, count: int) -> Iterator[str]:
    """Plain and marked captions with one to three random slips of the keyboard: nobody chose these cases."""
    keys = "abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789.,;:'\"!?-/()&#$%@*+=_~ "
    sources = [plain_captions(rng, count), inserted(rng, MARKED, count)]
    for number in range(count):
        letters = list(next(sources[number % 2]))
        for _ in range(rng.randint(1, 3)):
            position, slip = rng.randrange(len(letters)), rng.choice(["insert", "replace", "remove", "repeat"])
            if slip == "insert":
                letters.insert(position, rng.choice(keys))
            elif slip == "repeat":
                letters.insert(position, letters[position])
            elif slip == "replace":
                letters[position] = rng.choice(keys)
            else:
                del letters[position]
        yield "".join(letters)


def corpus(count: int) -> dict[str, list[str]]:
    rng = random.Random(2024)
    return {
        "plain": list(plain_captions(rng, count)),
        "marked": list(inserted(rng, MARKED, count)),
        "odd": list(inserted(rng, ODD, count)),
        "slips": list(mistyped(rng, count)),
    }


def java_words(captions: list[str]) -> list[Words]:
    """What the toolkit makes of captions: its Java program with its options, and its list of words to remove.

    A caption of two words stands after each: the program reads across the end of a line, so that the toolkit's words
    of a caption depend, rarely, on the next. This one begins as most captions of COCO do.
    """
    from verism.metrics.captions.tokens import REMOVED_WORDS

    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install the toolkit first: pip install --no-deps pycocoevalcap==1.2")
    jar = Path(spec.submodule_search_locations[0], "tokenizer", "stanford-corenlp-3.4.1.jar")
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
    command += ["-preserveLines", "-lowerCase", "-encoding", "utf-8"]
    text = "".join(f"{caption}\nA x\n" for caption in captions)
    answer = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.decode()
    lines = answer.split("\n")[: 2 * len(captions)]
    assert lines[1::2] == ["a x"] * len(captions), "Java's lines do not fit the captions"
    return [[word for word in line.rstrip().split(" ") if word and word not in REMOVED_WORDS] for line in lines[::2]]


def tokens(options: argparse.Namespace) -> int:
    from verism.metrics.captions import ptb_words

    stored: list[list[Any]] = []
    for kind, captions in corpus(options.captions).items():
        wanted = java_words(captions)
        results = [ptb_words(caption) for caption in captions]
        wrong = [number for number in range(len(captions)) if wanted[number] != results[number]]
        n_words = sum(map(len, wanted))
        edits: dict[tuple[str, str], int] = {}
        changed = 0
        for number in wrong:
            matcher = SequenceMatcher(None, wanted[number], results[number], autojunk=False)
            for what, i, j, k, m in matcher.get_opcodes():
                if what != "equal":
                    changed += max(j - i, m - k)
                    edit = (" ".join(wanted[number][i:j]), " ".join(results[number][k:m]))
                    edits[edit] = edits.get(edit, 0) + 1
        print(
            f"{kind:<7} {len(wrong)} of {len(captions)} captions differ ({100 * len(wrong) / len(captions):.2f} %), "
            f"{changed} of {n_words} words ({100 * changed / n_words:.3f} %)"
        )
        for (theirs_are, ours_are), times in sorted(edits.items(), key=lambda item: -item[1])[: options.examples]:
            print(f"        {times:>4} x  Java {theirs_are!r}  ours {ours_are!r}")
        every = max(1, len(captions) // STORED) if kind in ("plain", "slips") else 1
        stored += [[captions[n], wanted[n]] for n in range(0, min(len(captions), STORED * every), every)]
    if options.write:
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in stored)
        options.write.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    return 0


def java(options: argparse.Namespace) -> int:
    """Our way of running METEOR, a part of the statistics at a time, beside the toolkit's: the same values.

    Every fifth caption is one of its references, as METEOR sums those in another way.
    """
    from pycocoevalcap.meteor.meteor import Meteor

    from verism.metrics.captions import external, meteor

    external.METEOR_BLOCK = max(1, options.images // 7)
    candidates, references = made_up_set(options.images)
    answers = [" ".join(words) for words in candidates.values()]
    meant = [[" ".join(words) for words in several] for several in references.values()]
    answers[::5] = [several[0] for several in meant[::5]]
    corpus, single = Meteor().compute_score(dict(enumerate(meant)), {n: [text] for n, text in enumerate(answers)})
    ours_corpus, ours_single, table = meteor(answers, meant)
    difference = max(abs(ours_corpus - corpus), float(np.abs(ours_single - single).max()))
    print(f"METEOR of {options.images} captions: {ours_corpus:.6f}; the toolkit: {corpus:.6f}; apart by {difference:g}")
    formula = abs(float(external.meteor_value(table.sum(axis=0))) - corpus)
    print(f"Python's formula for resampling is apart by {formula:g}")
    return 0 if difference == 0 and formula < 1e-12 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    for_speed = commands.add_parser("speed", help="seconds and memory beside pycocoevalcap")
    for_speed.add_argument("--images", type=int, default=5000)
    for_speed.add_argument("--repeats", type=int, default=2, help="of either; the shortest time counts")
    for_speed.add_argument("--json", action="store_true")
    for_tokens = commands.add_parser("tokens", help="differences from the Java tokeniser")
    for_tokens.add_argument("--captions", type=int, default=4000, help="of each kind")
    for_tokens.add_argument("--examples", type=int, default=40, help="kinds of difference to print")
    for_tokens.add_argument("--write", type=Path, help="store Java's words of some captions, for the tests")
    for_java = commands.add_parser("java", help="METEOR through us and through the toolkit")
    for_java.add_argument("--images", type=int, default=50)
    for_one = commands.add_parser("one", help="used by speed")
    for_one.add_argument("who", choices=["ours", "theirs"])
    for_one.add_argument("metric", choices=METRICS)
    for_one.add_argument("images", type=int)
    for_one.add_argument("repeats", type=int)
    options = parser.parse_args(sys.argv[1:] or ["speed"])
    if options.command == "tokens":
        return tokens(options)
    if options.command == "java":
        return java(options)
    if options.command == "one":
        one(options)
        return 0
    return speed(options)


if __name__ == "__main__":
    raise SystemExit(main())
