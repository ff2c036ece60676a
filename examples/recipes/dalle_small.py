"""DALL-E Small (lucidrains/DALLE-pytorch, 16 layers, CC3M + CC12M) for ``verism run``; see docs/recipes/dalle-small.md.

Runs in the environment of DALLE-pytorch:
    python dalle_small.py --weights 16L_64HD_8H_512I_128T_cc12m_cc3m_3E.pt --vqgan vqgan.1024.model.ckpt \
        --vqgan-config vqgan.1024.config.yml
"""

import recipe_kit as kit

SETTINGS = {
    "released": {"filter_thres": 0.9, "temperature": 1.0},
    "paper": {"filter_thres": 0.0, "temperature": 1.0},
}
ADVICE = "docs/recipes/dalle-small.md says where they come from; name them with --weights, --vqgan, --vqgan-config."


def load(args, settings):
    kit.need_files(
        {"checkpoint": args.weights, "VQGAN weights": args.vqgan, "VQGAN configuration": args.vqgan_config}, ADVICE
    )
    import torch
    from dalle_pytorch import DALLE, VQGanVAE
    from dalle_pytorch.tokenizer import tokenizer

    device = kit.device_of(args)
    saved = torch.load(args.weights, map_location="cpu")
    if not isinstance(saved, dict) or not {"hparams", "weights"} <= set(saved):
        raise kit.Missing(f"{args.weights} is no DALLE-pytorch checkpoint: it lacks hparams, weights")
    hparams = {key: value for key, value in saved["hparams"].items() if key != "vae"}
    model = DALLE(vae=VQGanVAE(args.vqgan, args.vqgan_config), **hparams)
    model.load_state_dict(saved["weights"])
    model = model.to(device).eval()
    tell_what_is_kept(model, settings["filter_thres"])

    def paint(requests):
        texts = [request["prompt"] for request in requests]
        tokens = tokenizer.tokenize(texts, model.text_seq_len, truncate_text=True).to(device)
        with torch.no_grad(), kit.OwnNumbers(request["seed"] for request in requests) as numbers:
            images = model.generate_images(text=tokens, **settings)
        numbers.check()
        return [kit.to_image(image) for image in images]

    return paint


def tell_what_is_kept(model, filter_thres):
    """Say whether the filter filters: it counts logits of text and image together, and text is ruled out anyway."""
    total, image = getattr(model, "total_tokens", None), getattr(model, "num_image_tokens", None)
    if total and image:
        kept = max(int((1 - filter_thres) * total), 1)  # as the model counts
        effect = "no image token is filtered out" if kept >= image else "the others are never drawn"
        print(f"filter_thres {filter_thres} keeps {kept} of {total} logits; {image} are image tokens: {effect}")


if __name__ == "__main__":
    parser = kit.arguments("DALL-E Small images for verism", SETTINGS, batch=10)
    parser.add_argument("--weights", default="16L_64HD_8H_512I_128T_cc12m_cc3m_3E.pt", help="checkpoint")
    parser.add_argument("--vqgan", default="vqgan.1024.model.ckpt", help="weights of the image tokenizer")
    parser.add_argument("--vqgan-config", default="vqgan.1024.config.yml", help="its configuration")
    kit.main(parser, SETTINGS, load, "dalle-small")
