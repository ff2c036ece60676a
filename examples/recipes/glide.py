"""GLIDE (filtered) of OpenAI for ``verism run``; see docs/recipes/glide.md.

Runs in the environment of glide-text2im:  python glide.py --weights glide_model_cache
"""

import os

import recipe_kit as kit

SETTINGS = {
    "released": {"steps": "100", "guidance": 3.0, "upsample_steps": "fast27", "upsample_temp": 0.997},
}


def load(args, settings):
    files = {name: os.path.join(args.weights, name + ".pt") for name in ("base", "upsample")}
    if not args.download:
        kit.need_files(files, "Give the folder of base.pt and upsample.pt with --weights, or --download.")
    import torch
    from glide_text2im.download import load_checkpoint
    from glide_text2im.model_creation import (
        create_model_and_diffusion,
        model_and_diffusion_defaults,
        model_and_diffusion_defaults_upsampler,
    )

    device = torch.device(kit.device_of(args))
    half = device.type != "cpu"

    def build(options, steps, name):
        options = dict(options, use_fp16=half, timestep_respacing=steps)
        model, diffusion = create_model_and_diffusion(**options)
        model.eval()
        if half:
            model.convert_to_fp16()
        model.to(device)
        if os.path.exists(files[name]):  # the package would go to the network even then
            model.load_state_dict(torch.load(files[name], map_location=device))
        else:
            model.load_state_dict(load_checkpoint(name, device, cache_dir=args.weights))
        return model, diffusion, options

    base = build(model_and_diffusion_defaults(), settings["steps"], "base")
    upsampler = build(model_and_diffusion_defaults_upsampler(), settings["upsample_steps"], "upsample")

    def paint(requests):
        prompts = [request["prompt"] for request in requests]
        with torch.no_grad(), kit.OwnNumbers(request["seed"] for request in requests):
            small = paint_small(base, prompts, settings["guidance"], device)
            images = enlarge(upsampler, prompts, small, settings["upsample_temp"], device)
        return [kit.to_image((image.float() + 1) / 2, rounded=True) for image in images]

    return paint


def text_of(model, prompts, length, device):
    """Tokens and mask of prompts, as the model takes them; an empty list of tokens for None."""
    import torch

    rows = [
        model.tokenizer.padded_tokens_and_mask([] if prompt is None else model.tokenizer.encode(prompt), length)
        for prompt in prompts
    ]
    return {
        "tokens": torch.tensor([tokens for tokens, _ in rows], device=device),
        "mask": torch.tensor([mask for _, mask in rows], dtype=torch.bool, device=device),
    }


def paint_small(base, prompts, guidance, device):
    """Images of 64 pixels in [-1, 1], with classifier-free guidance: (N, 3, 64, 64)."""
    import torch

    model, diffusion, options = base
    number, size = len(prompts), options["image_size"]

    def guided(x, steps, **text):
        # Both halves of the batch are one image: with its prompt, and without.
        x = x[:number]
        predicted = model(torch.cat([x, x]), steps, **text)
        noise, rest = predicted[:, :3], predicted[:, 3:]
        without = noise[number:]
        towards = without + guidance * (noise[:number] - without)
        return torch.cat([torch.cat([towards, towards]), rest], dim=1)

    model.del_cache()
    text = text_of(model, prompts + [None] * number, options["text_ctx"], device)
    small = diffusion.p_sample_loop(
        guided, (2 * number, 3, size, size), device=device, clip_denoised=True, model_kwargs=text, cond_fn=None
    )
    model.del_cache()
    return small[:number]


def enlarge(upsampler, prompts, small, temperature, device):
    """Images of 256 pixels in [-1, 1] of those of 64: (N, 3, 256, 256)."""
    import torch

    model, diffusion, options = upsampler
    size = options["image_size"]
    shape = (len(prompts), 3, size, size)
    inputs = text_of(model, prompts, options["text_ctx"], device)
    inputs["low_res"] = ((small + 1) * 127.5).round() / 127.5 - 1  # as if they had been saved with 8 bits
    model.del_cache()
    images = diffusion.ddim_sample_loop(
        model,
        shape,
        noise=torch.randn(shape, device=device) * temperature,
        device=device,
        clip_denoised=True,
        model_kwargs=inputs,
        cond_fn=None,
    )
    model.del_cache()
    return images


if __name__ == "__main__":
    parser = kit.arguments("GLIDE (filtered) images for verism", SETTINGS, batch=8)
    parser.add_argument("--weights", default="glide_model_cache", help="folder with base.pt and upsample.pt")
    parser.add_argument("--download", action="store_true", help="download what is not there, through the package")
    kit.main(parser, SETTINGS, load, "glide-filtered")
