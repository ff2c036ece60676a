"""ruDALL-E XL (Malevich) for ``verism run``; see docs/recipes/rudalle-xl.md.

Runs in the environment of rudalle:  python rudalle_xl.py --translations prompts_ru.tsv
"""

import importlib
import json
import os
import sys

import recipe_kit as kit

SETTINGS = {"released": {"top_k": 2048, "top_p": 0.995, "temperature": 1.0}}


class Translations(object):  # noqa: UP004 (as old as the models)
    """Russian by English prompt: from a file, then from a function of the user, else an error that says what to do."""

    def __init__(self, table, function=None, missing=None):
        self.table, self.function, self.missing = dict(table), function, missing
        self.told = set()

    def __call__(self, prompt):
        if prompt not in self.table and self.function is not None:
            self.table[prompt] = self.function(prompt)
        if prompt in self.table:
            return self.table[prompt]
        if self.missing and prompt not in self.told:
            self.told.add(prompt)
            with open(self.missing, "a", encoding="utf-8") as file:
                file.write(prompt + "\t\n")
        raise LookupError(f"no Russian translation of {prompt!r}: add a line to the --translations file")


def read_translations(path):
    """Russian by prompt, of a file with lines ``prompt<TAB>russian`` or a scene file with ``text`` and ``ru_text``."""
    with open(path, encoding="utf-8-sig") as file:
        if path.endswith(".json"):
            rows = [(scene.get("text"), scene.get("ru_text")) for scene in json.load(file)["data"]]
        else:
            rows = [line.rstrip("\r\n").split("\t") for line in file]
    table = {}
    for number, row in enumerate(rows, 1):
        if row == [""] or (len(row) == 2 and row[0] and not row[1]):
            continue  # an empty line, or a prompt that is not translated yet
        if len(row) != 2 or not row[0]:
            raise kit.Missing(f"{path}, line {number}: expected prompt, tab, Russian; got {row!r}")
        if table.setdefault(row[0], row[1]) != row[1]:
            raise kit.Missing(f"{path}, line {number}: a second translation of {row[0]!r}")
    return table


def translations_of(args):
    if args.russian_prompts:
        return lambda prompt: prompt
    if not (args.translations or args.translator):
        raise kit.Missing(
            "the model reads Russian: give --translations FILE.tsv (lines of prompt, tab, Russian), --translator "
            "MODULE:FUNCTION, or --russian-prompts if the prompts are Russian already"
        )
    table, function = {}, None
    for path in args.translations:
        kit.need_files({"translations": path}, "Lines of prompt, tab, Russian; see docs/recipes/rudalle-xl.md.")
        table.update(read_translations(path))
    if args.translator:
        module, _, name = args.translator.partition(":")
        sys.path.append(os.getcwd())
        function = getattr(importlib.import_module(module), name)
    return Translations(table, function, args.missing)


def filtered(logits, top_k, top_p):
    """Logits (N, K) with -inf for all but the top_k largest and, of those, the smallest set of mass above top_p.

    The token that crosses the limit stays, and so do ties with the k-th.
    """
    import torch

    limit = torch.topk(logits, min(top_k, logits.shape[-1]))[0][:, -1:]
    logits = logits.masked_fill(logits < limit, -float("inf"))
    ordered, order = torch.sort(logits, descending=True, dim=-1)
    mass = torch.softmax(ordered, dim=-1)
    too_late = torch.cumsum(mass, dim=-1) - mass > top_p  # the mass before a token
    return logits.masked_fill(torch.zeros_like(too_late).scatter(1, order, too_late), -float("inf"))


def load(args, settings):
    russian = translations_of(args)
    if args.finetuned:
        kit.need_files({"finetuned checkpoint": args.finetuned}, "Name it with --finetuned, or leave the option out.")
    import torch
    from rudalle import get_rudalle_model, get_tokenizer, get_vae

    device = kit.device_of(args)
    try:
        model = get_rudalle_model(
            "Malevich", pretrained=True, fp16=device != "cpu", device=device, cache_dir=args.cache
        )
        vae = get_vae(cache_dir=args.cache).to(device)
        tokenizer = get_tokenizer(cache_dir=args.cache)
    except (OSError, ValueError) as err:
        raise kit.Missing(
            f"the weights could not be loaded ({err}). The package looks for them in {args.cache} and else downloads "
            "them; see docs/recipes/rudalle-xl.md"
        ) from err
    if args.finetuned:
        saved = torch.load(args.finetuned, map_location="cpu")
        model.load_state_dict({k[len("module.") :] if k.startswith("module.") else k: v for k, v in saved.items()})
    model.eval()
    text_length, total = model.get_param("text_seq_length"), model.get_param("total_seq_length")
    image_length, first_image_token = model.get_param("image_seq_length"), model.get_param("vocab_size")

    def paint(requests):
        texts = [russian(request["prompt"]).lower().strip() for request in requests]
        rows = [tokenizer.encode_text(text, text_seq_length=text_length) for text in texts]
        sequence = torch.stack(rows).to(device)
        mask = torch.tril(torch.ones((len(requests), 1, total, total), device=device))
        has_cache = False
        with torch.no_grad(), kit.OwnNumbers(request["seed"] for request in requests):
            while sequence.shape[1] < total:
                logits, has_cache = model(sequence, mask, has_cache=has_cache, use_cache=True, return_loss=False)
                logits = logits[:, -1, first_image_token:].float() / settings["temperature"]
                chances = torch.softmax(filtered(logits, settings["top_k"], settings["top_p"]), dim=-1)
                sequence = torch.cat((sequence, torch.multinomial(chances, 1)), dim=1)
            images = vae.decode(sequence[:, -image_length:])
        return [kit.to_image(image) for image in images]

    return paint


if __name__ == "__main__":
    parser = kit.arguments("ruDALL-E XL images for verism", SETTINGS, batch=32)
    parser.add_argument(
        "--translations", action="append", default=[], metavar="FILE",
        help="prompt, tab, Russian per line; or a scene file with ru_text; may be given several times",
    )  # fmt: skip
    parser.add_argument("--translator", metavar="MODULE:FUNCTION", help="called with prompts that the files lack")
    parser.add_argument("--missing", metavar="FILE", help="append prompts without translation to this file")
    parser.add_argument("--russian-prompts", action="store_true", help="the prompts are Russian already")
    parser.add_argument("--cache", default="/tmp/rudalle", help="where the package keeps its weights")
    parser.add_argument("--finetuned", metavar="FILE", help="state dict of a finetuned model")
    kit.main(parser, SETTINGS, load, "rudalle-xl")
