"""minDALL-E 1.3B (Kakao Brain) for ``verism run``; see docs/recipes/mindalle.md.

Runs in the environment of minDALL-E:  python mindalle.py --repository minDALL-E
"""

import os
import sys

import recipe_kit as kit

SETTINGS = {"released": {"top_k": 256, "top_p": None, "softmax_temperature": 1.0}}
PUBLISHED = "minDALL-E/1.3B"  # the package knows this name, and downloads the weights


def load(args, settings):
    if not 1 <= settings["top_k"] <= 256:
        raise kit.Missing("--top-k must be 1 to 256, as in the released script; got {}".format(settings["top_k"]))
    advice = "Unpack 1.3B.tar.gz and name its folder with --weights; see docs/recipes/mindalle.md."
    if args.weights != PUBLISHED:
        parts = ("config.yaml", "tokenizer", "stage1_last.ckpt", "stage2_last.ckpt")
        kit.need_files({part: os.path.join(args.weights, part) for part in parts}, advice)
    if args.finetuned:
        kit.need_files({"finetuned checkpoint": args.finetuned}, "Name it with --finetuned, or leave the option out.")
    if args.repository:
        kit.need_files(
            {"repository": os.path.join(args.repository, "dalle")},
            "Clone kakaobrain/minDALL-E, or leave --repository out.",
        )
        sys.path.insert(0, os.path.abspath(args.repository))
    import torch
    from dalle.models import Dalle
    from dalle.utils.sampling import sampling

    device = kit.device_of(args)
    try:
        model = Dalle.from_pretrained(args.weights)
    except OSError as err:
        raise kit.Missing(f"the weights could not be loaded ({err}). {advice}") from err
    if args.finetuned:
        model.load_state_dict(torch.load(args.finetuned, map_location="cpu")["state_dict"])
    model.to(device=device)
    model.stage1.eval()
    model.stage2.eval()

    def paint(requests):
        tokens = torch.LongTensor([model.tokenizer.encode(request["prompt"]).ids for request in requests]).to(device)
        with torch.no_grad(), kit.OwnNumbers(request["seed"] for request in requests) as numbers:
            codes = sampling(model.stage2, tokens, use_fp16=device != "cpu", is_tqdm=False, **settings)
            images = model.stage1.decode_code(codes.view(len(requests), 16, 16)) * 0.5 + 0.5
        numbers.check()
        return [kit.to_image(image) for image in images]

    return paint


if __name__ == "__main__":
    parser = kit.arguments("minDALL-E images for verism", SETTINGS, kinds={"top_p": float}, batch=8)
    parser.add_argument(
        "--repository", metavar="FOLDER", help="the cloned repository, unless it is on the path already"
    )
    parser.add_argument("--weights", default=PUBLISHED, help="folder of the unpacked weights, or the published name")
    parser.add_argument("--finetuned", metavar="FILE", help="Lightning checkpoint of a finetuned model (last.ckpt)")
    kit.main(parser, SETTINGS, load, "mindalle-1.3B")
