"""How models that take instructions are asked for the text of an image, and what their replies mean."""

from __future__ import annotations

__all__ = ["INSTRUCTION", "NOTHING", "text_of_reply", "wording_of"]

NOTHING = "NO TEXT"
INSTRUCTION = (
    "Write out all text in this image exactly as it stands there: the same spelling, case and punctuation, mistakes "
    f"included, line by line in reading order, and nothing else. If there is no text, reply {NOTHING}."
)


def wording_of(prompt: str | None, instruction: str) -> str:
    """The instruction that counts: the user's, else that of the suite, else ours.

    Args:
        prompt: of the user; None: none.
        instruction: of the need; empty: none.
    """
    return prompt or instruction or INSTRUCTION


def text_of_reply(reply: str, wording: str) -> str:
    """The text that a reply says is in the image: lines without spaces at their ends, and without a code fence.

    Only our own instruction has a word for "no text" that is taken out here: what another instruction's reply means is
    for the suite's rules to say.

    >>> text_of_reply("NO TEXT.", INSTRUCTION), text_of_reply("NO TEXT.", "Read it.")
    ('', 'NO TEXT.')
    """
    lines = [line.strip() for line in reply.strip().splitlines()]
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1] == "```":
        lines = lines[1:-1]
    text = "\n".join(line for line in lines if line)
    return "" if wording == INSTRUCTION and text.strip(".!\"'").upper() == NOTHING else text
